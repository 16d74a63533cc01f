//! What clients, other shards and operators ask for: one file each.

pub(super) mod audit;
pub(super) mod commit;
pub(super) mod dead;
pub(super) mod delete;
pub(super) mod explain;
pub(super) mod extend;
pub(super) mod group;
pub(super) mod join;
pub(super) mod outbox;
pub(super) mod patch;
pub(super) mod pause;
pub(super) mod peek;
pub(super) mod pointer;
pub(super) mod produce;
pub(super) mod purge;
pub(super) mod redrive;
pub(super) mod reopen;
pub(super) mod repair;
pub(super) mod route;
pub(super) mod says;
pub(super) mod seek;
pub(super) mod settle;
pub(super) mod topic;
pub(super) mod view;
