//! The effect ledger: one right to execute at a time, one outcome, and doubt as a state.

mod alone;
mod audit;
mod commit;
mod corners;
mod explain;
mod holders;
mod pointer;
mod tokens;
mod under;
