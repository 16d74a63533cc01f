//! Commands of clients, other shards and operators, one file per verb.

mod act_record;
pub(super) mod audit;
pub(super) mod commit;
pub(super) mod create_group;
pub(super) mod create_topic;
pub(super) mod delete;
pub(super) mod explain;
pub(super) mod extend;
pub(super) mod join;
pub(super) mod list_dead_letters;
pub(super) mod outbox;
mod owners;
pub(super) mod patch_topic;
pub(super) mod pause;
pub(super) mod peek;
pub(super) mod pointer;
pub(super) mod produce;
pub(super) mod produce_with_nonce;
pub(super) mod purge;
pub(super) mod redrive;
pub(super) mod reopen;
pub(super) mod repair;
pub(super) mod route;
pub(super) mod seek;
pub(super) mod settle;
pub(super) mod summary;
pub(super) mod view;
