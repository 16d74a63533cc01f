//! Which shards a node serves: when to renew, claim, give up and step down.
//!
//! A machine like the pipeline: it is told what happened and says what to do. Nodes learn of each other
//! from what the database shows when they renew, and in no other way.
//!
//! # Guarantees
//!
//! 1. Nothing is served later than the lease of the node less its margin, counted on the node's own clock
//!    from when the last renewal was asked for. Whatever it hears, it looks at that first.
//! 2. A shard of another node is claimed only when that node has given it up, or two views in a row did
//!    not show it alive: a database whose clock jumped shows nobody alive at first. One that was away does
//!    so for longer: [`STARTUP_GRACE_MS`].
//! 3. A claim names the epoch it was decided on. Of two that were, one is refused, and so is one that was
//!    sent late by a process that had been stopped.
//! 4. One renewal, [`CLAIMS_MAX`] claims and [`GIVE_UPS_MAX`] shards given up are under way at most. A claim
//!    is asked again only when it was answered, and after each failure later.
//!
//! Correctness never depends on it: every commit is fenced by the epoch of its claim. Only how soon
//! somebody serves a shard does.
//!
//! Times are of the node's monotonic clock: only spans matter.

mod admin;
mod assign;
mod event;
mod shard_slot;
mod view;

use std::collections::BTreeMap;

use crate::id::{Epoch, NodeId, ShardId, Text};
use crate::time::Timestamp;
use crate::token::TokenVersion;

use shard_slot::{ShardSlot, State};

pub use admin::AdminError;
pub use assign::assign;
pub use event::{Action, Event};
pub use view::{ClusterView, NodeRow, NodeView, Part, RULES, ShardOwner, Shown};

/// How long a node counts as alive after a renewal, unless configured.
pub const NODE_LEASE_MS: u64 = 10_000;
/// The longest that can be configured.
pub const NODE_LEASE_MS_MAX: u64 = 60_000;
/// Which part of its lease a node leaves unused: clocks run apart, and stopping takes time.
pub const MARGIN_PART: u64 = 5;
/// The least it leaves unused.
pub const MARGIN_MS_MIN: u64 = 500;
/// From one renewal to the next.
pub const RENEW_MS: u64 = 1_000;
/// From the first one to the second: before that nothing is claimed, so that nodes which come together see
/// each other.
pub const FIRST_RENEW_DELAY_MS: u64 = 200;
/// A renewal without an answer for so long has failed: several fit into a lease.
pub const RENEW_WAIT_MS: u64 = 2_000;
/// A node that has just come, or come back, takes nobody for lost for so long. If the database was away,
/// all others come back too, each when it has given up its last renewal and asked again.
pub const STARTUP_GRACE_MS: u64 = RENEW_WAIT_MS + RENEW_MS;
/// Claims a node has under way: the shards of a lost node must not fall upon the database at once.
pub const CLAIMS_MAX: usize = 16;
/// Shards a node is giving up at a time.
pub const GIVE_UPS_MAX: usize = 16;
/// Longest wait after the first failed claim of a shard; doubles with each. The same for a shard that is lost
/// as soon as it is served, which is counted apart: a shard that was hard to claim may serve well.
pub const CLAIM_BACKOFF_MS: u64 = 100;
/// Longest wait after any. If no claim fails for so long, it begins anew.
pub const CLAIM_BACKOFF_MS_MAX: u64 = 10_000;
/// A shard that was served for so long does not fail by being served: if it is lost then, that is another
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

/// The ownerships of one node.
#[derive(Debug)]
pub struct Ownerships {
    me: NodeId,
    lease_ms: u64,
    life: Life,
    seats: Vec<ShardSlot>,
    view: ClusterView,
    /// The nodes of the view before.
    before: BTreeMap<NodeId, NodeView>,
    /// What the view makes of each shard.
    wishes: Vec<Option<NodeId>>,
    /// When the last renewal that was done was asked for; none if the lease is over.
    renewed_at: Option<Timestamp>,
    /// When the first was, of those without such an end between them.
    first_at: Timestamp,
    /// When the renewal under way was asked for.
    asked_at: Option<Timestamp>,
    /// When to ask for the next.
    renew_at: Timestamp,
    /// Since when every view has shown only nodes that read version 2 of tokens.
    token_v2_since: Option<Timestamp>,
}

impl Ownerships {
    /// A node that has just started: its first act is to renew.
    pub fn new(me: NodeId, lease_ms: u64) -> Ownerships {
        Ownerships {
            me,
            lease_ms,
            life: Life::Taking,
            seats: Vec::new(),
            view: ClusterView::default(),
            before: BTreeMap::new(),
            wishes: Vec::new(),
            renewed_at: None,
            first_at: Timestamp(0),
            asked_at: None,
            renew_at: Timestamp(0),
            token_v2_since: None,
        }
    }

    /// Tells what happened; says what to do, in this order.
    #[must_use = "the actions must be performed"]
    pub fn on(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
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
            actions.push(Action::Leave);
            return actions;
        }
        if self.asked_at.is_none() && self.renew_at <= now {
            self.asked_at = Some(now);
            self.renew_at = now.after(RENEW_MS);
            let draining = self.life == Life::Draining || self.part() == Some(Part::Drained);
            actions.push(Action::Renew { draining });
        }
        if self.renewed_at.is_some() {
            self.plan(now, &mut actions);
        }
        actions
    }

    /// When to call [`Ownerships::on`] if nothing happens before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.life == Life::Left {
            return None;
        }
        let renew_at = self.asked_at.is_none().then_some(self.renew_at);
        let claims = self.renewed_at.is_some() && self.claims() < CLAIMS_MAX;
        let waiting = self.seats.iter().enumerate().filter(|(number, _)| self.may_claim(*number));
        let claim_at = waiting.filter_map(|(_, seat)| seat.claim_at).min().filter(|_| claims);
        [renew_at, self.serves_until(), claim_at].into_iter().flatten().min()
    }

    /// Who holds a shard, as far as this node knows: where its requests go.
    pub fn holder(&self, shard: ShardId) -> Option<(NodeId, Epoch)> {
        let held = self.view.shards.get(shard.0 as usize)?;
        Some((held.node?, held.epoch))
    }

    /// Where a node is reached.
    pub fn address(&self, node: NodeId) -> Option<&Text> {
        self.view.nodes.get(&node).map(|node| &node.address)
    }

    /// What part this node has, as far as it knows.
    pub fn part(&self) -> Option<Part> {
        self.view.nodes.get(&self.me).map(|node| node.part)
    }

    /// The version of tokens that this node mints.
    pub fn token_version(&self, now: Timestamp) -> TokenVersion {
        match self.token_v2_since {
            Some(since) if since.after(TOKEN_V2_AFTER_MS) <= now => TokenVersion::V2,
            Some(_) | None => TokenVersion::V1,
        }
    }

    /// The node that a shard is wished for.
    pub fn target(&self, shard: ShardId) -> Option<NodeId> {
        self.wishes.get(shard.0 as usize).copied().flatten()
    }

    /// Under which epoch this node serves a shard.
    pub fn serves(&self, shard: ShardId) -> Option<Epoch> {
        match self.seats.get(shard.0 as usize)?.state {
            State::Serving { epoch } => Some(epoch),
            State::Idle | State::Claiming { .. } | State::GivingUp | State::Fenced { .. } => None,
        }
    }

    /// How long after asking for a renewal that was done shards are served.
    fn serves_ms(&self) -> u64 {
        self.lease_ms.saturating_sub((self.lease_ms / MARGIN_PART).max(MARGIN_MS_MIN))
    }

    fn serves_until(&self) -> Option<Timestamp> {
        self.renewed_at.map(|asked_at| asked_at.after(self.serves_ms()))
    }

    fn claims(&self) -> usize {
        self.seats.iter().filter(|seat| matches!(seat.state, State::Claiming { .. })).count()
    }

    fn give_ups(&self) -> usize {
        self.seats.iter().filter(|seat| seat.state == State::GivingUp).count()
    }

    /// Whether a node that is to stop has nothing left to do.
    fn is_emptied(&self) -> bool {
        let is_empty = |seat: &ShardSlot| matches!(seat.state, State::Idle | State::Fenced { .. });
        self.life == Life::Draining && self.asked_at.is_none() && self.seats.iter().all(is_empty)
    }

    fn step_down(&mut self, actions: &mut Vec<Action>) {
        self.renewed_at = None;
        for (number, seat) in self.seats.iter_mut().enumerate() {
            seat.state = match seat.state {
                State::Idle | State::Fenced { .. } => continue,
                State::Serving { .. } => State::Idle,
                State::Claiming { .. } => State::Claiming { doomed: true },
                State::GivingUp => State::GivingUp,
            };
            actions.push(Action::Abandon(ShardId(number as u32)));
        }
    }

    fn hear(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Renewed(shown) => self.renewed(now, shown.view()),
            Event::RenewFailed => self.asked_at = None,
            Event::Claimed { shard, epoch } => self.claimed(now, shard, epoch, actions),
            Event::ClaimFailed(shard) => self.claim_failed(now, shard),
            Event::Lost { shard, epoch, fenced } => self.lost(now, shard, epoch, fenced),
            Event::GivenUp(shard) => self.given_up(shard),
            Event::Drain => {
                self.life = Life::Draining;
                // The others should know before they see shards that nobody holds.
                self.renew_at = now;
            }
            Event::Time => {}
        }
    }

    fn renewed(&mut self, now: Timestamp, mut view: ClusterView) {
        let Some(asked_at) = self.asked_at.take() else { return };
        let is_late = asked_at.after(self.serves_ms()) <= now;
        if is_late || !view.nodes.contains_key(&self.me) {
            // Nothing to serve by.
            return;
        }
        let known = self.view.shards.iter().zip(&self.seats);
        for (seen, (known, seat)) in view.shards.iter_mut().zip(known) {
            // Seen before a claim of ours was done, and heard after. Otherwise the database itself has gone
            // back, and is right.
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
        self.wishes = assign(&self.view);
        self.seats.resize_with(self.view.shards.len(), ShardSlot::new);
        for seat in &mut self.seats {
            if matches!(seat.state, State::Fenced { at } if at <= asked_at) {
                seat.state = State::Idle;
            }
        }
    }

    fn claimed(&mut self, now: Timestamp, shard: ShardId, epoch: Epoch, actions: &mut Vec<Action>) {
        let number = shard.0 as usize;
        if let Some(held) = self.view.shards.get_mut(number).filter(|held| held.epoch < epoch) {
            *held = ShardOwner { epoch, node: Some(self.me), ..*held };
        }
        let Some(seat) = self.seats.get_mut(number) else { return };
        seat.claimed(now);
        if seat.state == (State::Claiming { doomed: false }) {
            seat.state = State::Serving { epoch };
        } else {
            seat.state = State::Idle;
            actions.push(Action::Abandon(shard));
        }
    }

    fn claim_failed(&mut self, now: Timestamp, shard: ShardId) {
        let Some(seat) = self.seats.get_mut(shard.0 as usize) else { return };
        if matches!(seat.state, State::Claiming { .. }) {
            seat.state = State::Idle;
            seat.claim_failed(now, self.me, shard);
        }
    }

    fn lost(&mut self, now: Timestamp, shard: ShardId, epoch: Epoch, fenced: bool) {
        let Some(seat) = self.seats.get_mut(shard.0 as usize) else { return };
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
        let Some(seat) = self.seats.get_mut(number) else { return };
        if seat.state == State::GivingUp {
            seat.state = State::Idle;
            // If the database was not told, the next view shows it, and it is told again.
            self.view.shards[number].node = None;
        }
    }

    /// Whether this node should serve a shard that it does not serve, and may.
    fn may_claim(&self, number: usize) -> bool {
        if self.seats[number].state != State::Idle || !self.is_wished(number) {
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

    fn is_wished(&self, number: usize) -> bool {
        self.life == Life::Taking && self.wishes[number] == Some(self.me)
    }

    /// What to do about each shard, from what the view says and what is under way.
    fn plan(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let (mut claims, mut give_ups) = (self.claims(), self.give_ups());
        for number in 0..self.seats.len() {
            let shard = ShardId(number as u32);
            let ShardOwner { epoch, node, .. } = self.view.shards[number];
            let is_mine = node == Some(self.me);
            let state = self.seats[number].state;
            let (next, action) = match state {
                State::Serving { epoch: served } if !is_mine || served != epoch => {
                    (State::Idle, Action::Abandon(shard))
                }
                State::Serving { .. } | State::Idle if is_mine && !self.is_wished(number) => {
                    if give_ups == GIVE_UPS_MAX {
                        continue;
                    }
                    give_ups += 1;
                    (State::GivingUp, Action::GiveUp { shard, epoch })
                }
                State::Idle if self.may_claim(number) => {
                    if claims == CLAIMS_MAX || self.seats[number].claim_at > Some(now) {
                        continue;
                    }
                    claims += 1;
                    (State::Claiming { doomed: false }, Action::Claim { shard, epoch })
                }
                State::Idle
                | State::Claiming { .. }
                | State::Serving { .. }
                | State::GivingUp
                | State::Fenced { .. } => continue,
            };
            self.seats[number].state = next;
            actions.push(action);
        }
    }
}
