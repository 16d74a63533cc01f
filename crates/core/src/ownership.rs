//! Which shards a node serves: when to renew, claim, give up and step down.
//!
//! A state machine like the pipeline: it receives events and returns actions. Nodes know each other
//! only from the rows that the database returns with a renewal.
//!
//! # Guarantees
//!
//! 1. A node serves nothing after its lease minus the margin, counted on its own clock from when it
//!    sent the last successful renewal. It checks this before it processes any event.
//! 2. A shard of another node is claimed only if that node has given it up, or if two views in a
//!    row did not show that node alive. One view is not enough, because a database whose clock
//!    jumped shows no node alive at first. A database that was unavailable shows no node alive for
//!    longer: see [`STARTUP_GRACE_MS`].
//! 3. A claim names the epoch it was decided on. Of two claims with the same epoch, one is
//!    rejected. So is a late claim of a process that had been suspended.
//! 4. At most one renewal, [`CLAIMS_MAX`] claims and [`GIVE_UPS_MAX`] give-ups are in progress. A
//!    claim is retried only after it was answered, with a longer wait after each failure.
//!
//! Correctness does not depend on this module, because every commit is fenced by the epoch of its
//! claim. Only availability does.
//!
//! Times are those of the node's monotonic clock. Only differences matter.

mod admin;
mod assign;
mod event;
mod shard_slot;
mod view;

use std::collections::BTreeMap;

use crate::format::Format;
use crate::id::{Epoch, NodeId, ShardId, Text};
use crate::time::Timestamp;
use crate::token::TokenVersion;

use shard_slot::{ShardSlot, State};

pub use admin::AdminError;
pub use assign::assign;
pub use event::{OwnershipAction, OwnershipEvent};
pub use view::{ClusterRows, ClusterView, NodeRole, NodeRow, NodeView, RULES, ShardOwner};

/// How long a node counts as alive after a renewal, unless configured.
pub const NODE_LEASE_MS: u64 = 10_000;
/// The longest lease that can be configured.
pub const NODE_LEASE_MS_MAX: u64 = 60_000;
/// The lease divided by this is the margin, which a node leaves unused because clocks drift and
/// stopping takes time.
pub const MARGIN_DIVISOR: u64 = 5;
/// The shortest margin.
pub const MARGIN_MS_MIN: u64 = 500;
/// Interval between renewals.
pub const RENEW_MS: u64 = 1_000;
/// Interval between the first and the second renewal. A node claims nothing before the second, so
/// that nodes that start together see each other.
pub const FIRST_RENEW_DELAY_MS: u64 = 200;
/// Timeout of a renewal. Several fit into a lease.
pub const RENEW_TIMEOUT_MS: u64 = 2_000;
/// Grace period after start or reconnect before other nodes may be declared dead. After a database
/// outage the other nodes reconnect too, each when its last renewal has timed out and the next one
/// succeeds.
pub const STARTUP_GRACE_MS: u64 = RENEW_TIMEOUT_MS + RENEW_MS;
/// Claims that a node has in progress. The shards of a dead node must not all be loaded from the
/// database at once.
pub const CLAIMS_MAX: usize = 16;
/// Shards that a node gives up at a time.
pub const GIVE_UPS_MAX: usize = 16;
/// Longest wait after the first failed claim of a shard. It doubles with each failure. The same
/// applies to a shard that is lost as soon as it is served. Those losses are counted separately,
/// because a shard that was hard to claim may serve well.
pub const CLAIM_BACKOFF_MS: u64 = 100;
/// Longest wait after any failed claim. If no claim fails for this long, the wait starts over.
pub const CLAIM_BACKOFF_MS_MAX: u64 = 10_000;
/// A shard that was served for this long is stable. If it is lost later, the cause is another
/// fault, and it is claimed at once.
pub const STABLE_AFTER_MS: u64 = 250;

/// How long all live nodes must have read version 2 of tokens before this node mints it. A release that was rolled
/// out may be rolled back within this time without rejecting a token that a worker holds.
pub const TOKEN_V2_AFTER_MS: u64 = 600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Taking,
    Draining,
    Left,
}

/// The shard ownerships of one node.
#[derive(Debug)]
pub struct Ownerships {
    me: NodeId,
    lease_ms: u64,
    life: Life,
    slots: Vec<ShardSlot>,
    view: ClusterView,
    /// The nodes of the previous view.
    before: BTreeMap<NodeId, NodeView>,
    /// The target node of each shard, computed from the view.
    targets: Vec<Option<NodeId>>,
    /// When the last successful renewal was sent. `None` after the lease has ended.
    renewed_at: Option<Timestamp>,
    /// When the first successful renewal since the last end of the lease was sent.
    first_at: Timestamp,
    /// When the renewal in progress was sent.
    asked_at: Option<Timestamp>,
    /// When to send the next renewal.
    renew_at: Timestamp,
    /// Since when every view has shown only nodes that read version 2 of tokens.
    token_v2_since: Option<Timestamp>,
    /// When a view last showed a node that does not read the newest format.
    older_at: Option<Timestamp>,
}

impl Ownerships {
    /// Creates a node that has just started. Its first action is to renew.
    pub fn new(me: NodeId, lease_ms: u64) -> Ownerships {
        Ownerships {
            me,
            lease_ms,
            life: Life::Taking,
            slots: Vec::new(),
            view: ClusterView::default(),
            before: BTreeMap::new(),
            targets: Vec::new(),
            renewed_at: None,
            first_at: Timestamp(0),
            asked_at: None,
            renew_at: Timestamp(0),
            token_v2_since: None,
            older_at: None,
        }
    }

    /// Processes an event and returns the actions to perform, in this order.
    #[must_use = "the actions must be performed"]
    pub fn on(&mut self, now: Timestamp, event: OwnershipEvent) -> Vec<OwnershipAction> {
        let mut actions = Vec::new();
        if self.life == Life::Left {
            return actions;
        }
        if self.serves_until().is_some_and(|until| until <= now) {
            self.step_down(&mut actions);
        }
        self.hear(now, event, &mut actions);
        if self.is_emptied() {
            self.life = Life::Left;
            actions.push(OwnershipAction::Leave);
            return actions;
        }
        if self.asked_at.is_none() && self.renew_at <= now {
            self.asked_at = Some(now);
            self.renew_at = now.after(RENEW_MS);
            let draining = self.life == Life::Draining || self.part() == Some(NodeRole::Drained);
            actions.push(OwnershipAction::Renew { draining });
        }
        if self.renewed_at.is_some() {
            self.plan(now, &mut actions);
        }
        actions
    }

    /// Returns when to call [`Ownerships::on`] if no event occurs before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.life == Life::Left {
            return None;
        }
        let renew_at = self.asked_at.is_none().then_some(self.renew_at);
        let claims = self.renewed_at.is_some() && self.claims() < CLAIMS_MAX;
        let waiting = self.slots.iter().enumerate().filter(|(number, _)| self.may_claim(*number));
        let claim_at = waiting.filter_map(|(_, seat)| seat.claim_at).min().filter(|_| claims);
        [renew_at, self.serves_until(), claim_at].into_iter().flatten().min()
    }

    /// Returns the holder of a shard, as far as this node knows. It receives the shard's requests.
    pub fn holder(&self, shard: ShardId) -> Option<(NodeId, Epoch)> {
        let held = self.view.shards.get(shard.0 as usize)?;
        Some((held.node?, held.epoch))
    }

    /// Returns the address of a node.
    pub fn address(&self, node: NodeId) -> Option<&Text> {
        self.view.nodes.get(&node).map(|node| &node.address)
    }

    /// Returns the part of this node in the cluster, as far as it knows.
    pub fn part(&self) -> Option<NodeRole> {
        self.view.nodes.get(&self.me).map(|node| node.part)
    }

    /// Returns the version of tokens that this node mints.
    pub fn token_version(&self, now: Timestamp) -> TokenVersion {
        match self.token_v2_since {
            Some(since) if since.after(TOKEN_V2_AFTER_MS) <= now => TokenVersion::V2,
            Some(_) | None => TokenVersion::V1,
        }
    }

    /// Returns the newest format that all nodes read. `None` if this node does not know: it has no
    /// lease. An older node counts for the grace period after a view has last shown it, because it
    /// may be about to reconnect.
    pub fn format(&self, now: Timestamp) -> Option<Format> {
        self.renewed_at?;
        match self.older_at {
            Some(at) if now < at.after(STARTUP_GRACE_MS) => Some(Format::V1),
            Some(_) | None => Some(self.view.format),
        }
    }

    /// Returns the node that should serve a shard.
    pub fn target(&self, shard: ShardId) -> Option<NodeId> {
        self.targets.get(shard.0 as usize).copied().flatten()
    }

    /// Returns the epoch under which this node serves a shard.
    pub fn serves(&self, shard: ShardId) -> Option<Epoch> {
        match self.slots.get(shard.0 as usize)?.state {
            State::Serving { epoch } => Some(epoch),
            State::Idle | State::Claiming { .. } | State::GivingUp | State::Fenced { .. } => None,
        }
    }

    /// Returns how long shards are served after a successful renewal was sent.
    fn serves_ms(&self) -> u64 {
        self.lease_ms.saturating_sub((self.lease_ms / MARGIN_DIVISOR).max(MARGIN_MS_MIN))
    }

    fn serves_until(&self) -> Option<Timestamp> {
        self.renewed_at.map(|asked_at| asked_at.after(self.serves_ms()))
    }

    fn claims(&self) -> usize {
        self.slots.iter().filter(|seat| matches!(seat.state, State::Claiming { .. })).count()
    }

    fn give_ups(&self) -> usize {
        self.slots.iter().filter(|seat| seat.state == State::GivingUp).count()
    }

    /// Whether a draining node has nothing left to do.
    fn is_emptied(&self) -> bool {
        let is_empty = |seat: &ShardSlot| matches!(seat.state, State::Idle | State::Fenced { .. });
        self.life == Life::Draining && self.asked_at.is_none() && self.slots.iter().all(is_empty)
    }

    fn step_down(&mut self, actions: &mut Vec<OwnershipAction>) {
        self.renewed_at = None;
        for (number, seat) in self.slots.iter_mut().enumerate() {
            seat.state = match seat.state {
                State::Idle | State::Fenced { .. } => continue,
                State::Serving { .. } => State::Idle,
                State::Claiming { .. } => State::Claiming { doomed: true },
                State::GivingUp => State::GivingUp,
            };
            actions.push(OwnershipAction::Abandon(ShardId(number as u32)));
        }
    }

    fn hear(&mut self, now: Timestamp, event: OwnershipEvent, actions: &mut Vec<OwnershipAction>) {
        match event {
            OwnershipEvent::Renewed(shown) => self.renewed(now, shown.view()),
            OwnershipEvent::RenewFailed => self.asked_at = None,
            OwnershipEvent::Claimed { shard, epoch } => self.claimed(now, shard, epoch, actions),
            OwnershipEvent::ClaimFailed(shard) => self.claim_failed(now, shard),
            OwnershipEvent::Lost { shard, epoch, fenced } => self.lost(now, shard, epoch, fenced),
            OwnershipEvent::GivenUp(shard) => self.given_up(shard),
            OwnershipEvent::Drain => {
                self.life = Life::Draining;
                // The other nodes should know before they see shards without a holder.
                self.renew_at = now;
            }
            OwnershipEvent::Time => {}
        }
    }

    fn renewed(&mut self, now: Timestamp, mut view: ClusterView) {
        let Some(asked_at) = self.asked_at.take() else { return };
        let is_late = asked_at.after(self.serves_ms()) <= now;
        if is_late || !view.nodes.contains_key(&self.me) {
            // The renewal does not allow this node to serve.
            return;
        }
        let known = self.view.shards.iter().zip(&self.slots);
        for (seen, (known, seat)) in view.shards.iter_mut().zip(known) {
            // The database read the view before a claim of this node, and the view arrived after
            // the claim. In all other cases the database itself has gone back to an older state,
            // and the view is right.
            if seen.epoch < known.epoch && seat.claimed_at.is_some_and(|at| at >= asked_at) {
                *seen = *known;
            }
        }
        self.before = std::mem::replace(&mut self.view, view).nodes;
        if self.renewed_at.replace(asked_at).is_none() {
            self.first_at = asked_at;
            self.renew_at = self.renew_at.min(asked_at.after(FIRST_RENEW_DELAY_MS));
        }
        self.token_v2_since = match self.view.token_version {
            TokenVersion::V1 => None,
            TokenVersion::V2 => self.token_v2_since.or(Some(now)),
        };
        if self.view.format < Format::NEWEST {
            self.older_at = Some(now);
        }
        self.targets = assign(&self.view);
        self.slots.resize_with(self.view.shards.len(), ShardSlot::new);
        for seat in &mut self.slots {
            if matches!(seat.state, State::Fenced { at } if at <= asked_at) {
                seat.state = State::Idle;
            }
        }
    }

    fn claimed(
        &mut self,
        now: Timestamp,
        shard: ShardId,
        epoch: Epoch,
        actions: &mut Vec<OwnershipAction>,
    ) {
        let number = shard.0 as usize;
        if let Some(held) = self.view.shards.get_mut(number).filter(|held| held.epoch < epoch) {
            *held = ShardOwner { epoch, node: Some(self.me), ..*held };
        }
        let Some(seat) = self.slots.get_mut(number) else { return };
        seat.claimed(now);
        if seat.state == (State::Claiming { doomed: false }) {
            seat.state = State::Serving { epoch };
        } else {
            seat.state = State::Idle;
            actions.push(OwnershipAction::Abandon(shard));
        }
    }

    fn claim_failed(&mut self, now: Timestamp, shard: ShardId) {
        let Some(seat) = self.slots.get_mut(shard.0 as usize) else { return };
        if matches!(seat.state, State::Claiming { .. }) {
            seat.state = State::Idle;
            seat.claim_failed(now, self.me, shard);
        }
    }

    fn lost(&mut self, now: Timestamp, shard: ShardId, epoch: Epoch, fenced: bool) {
        let Some(seat) = self.slots.get_mut(shard.0 as usize) else { return };
        if seat.state != (State::Serving { epoch }) {
            return;
        }
        seat.lost(now, self.me, shard);
        seat.state = State::Idle;
        if fenced {
            seat.state = State::Fenced { at: now };
            self.renew_at = now;
        }
    }

    fn given_up(&mut self, shard: ShardId) {
        let number = shard.0 as usize;
        let Some(seat) = self.slots.get_mut(number) else { return };
        if seat.state == State::GivingUp {
            seat.state = State::Idle;
            // If the database did not store this, the next view shows it, and it is given up again.
            self.view.shards[number].node = None;
        }
    }

    /// Whether this node should serve a shard that it does not serve, and may claim it.
    fn may_claim(&self, number: usize) -> bool {
        if self.slots[number].state != State::Idle || !self.is_target(number) {
            return false;
        }
        let looks_ms = self.renewed_at.map_or(0, |asked_at| asked_at.since(self.first_at));
        match self.view.shards[number].node {
            Some(node) if node == self.me => true,
            None => looks_ms > 0,
            Some(node) => {
                let is_gone = |nodes: &BTreeMap<NodeId, NodeView>| !nodes.contains_key(&node);
                looks_ms >= STARTUP_GRACE_MS && is_gone(&self.view.nodes) && is_gone(&self.before)
            }
        }
    }

    fn is_target(&self, number: usize) -> bool {
        self.life == Life::Taking && self.targets[number] == Some(self.me)
    }

    /// Decides what to do about each shard, from the view and the actions in progress.
    fn plan(&mut self, now: Timestamp, actions: &mut Vec<OwnershipAction>) {
        let (mut claims, mut give_ups) = (self.claims(), self.give_ups());
        for number in 0..self.slots.len() {
            let shard = ShardId(number as u32);
            let ShardOwner { epoch, node, .. } = self.view.shards[number];
            let is_mine = node == Some(self.me);
            let state = self.slots[number].state;
            let (next, action) = match state {
                State::Serving { epoch: served } if !is_mine || served != epoch => {
                    (State::Idle, OwnershipAction::Abandon(shard))
                }
                State::Serving { .. } | State::Idle if is_mine && !self.is_target(number) => {
                    if give_ups == GIVE_UPS_MAX {
                        continue;
                    }
                    give_ups += 1;
                    (State::GivingUp, OwnershipAction::GiveUp { shard, epoch })
                }
                State::Idle if self.may_claim(number) => {
                    if claims == CLAIMS_MAX || self.slots[number].claim_at > Some(now) {
                        continue;
                    }
                    claims += 1;
                    (State::Claiming { doomed: false }, OwnershipAction::Claim { shard, epoch })
                }
                State::Idle
                | State::Claiming { .. }
                | State::Serving { .. }
                | State::GivingUp
                | State::Fenced { .. } => continue,
            };
            self.slots[number].state = next;
            actions.push(action);
        }
    }
}
