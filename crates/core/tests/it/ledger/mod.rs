//! The effect ledger: one holder of the right to execute at a time, one outcome, and doubt as a
//! state.

mod alone;
mod audit;
mod commit;
mod corners;
mod delivery_effects;
mod explain;
mod holders;
mod pointer;
mod table;
mod tokens;
