//! Lists effects whose outcome is unknown, for operators who resolve them.

use crate::change::Decision;
use crate::command::{Effects, ListEffects, Rejection, Reply};
use crate::effect::Scope;
use crate::id::Text;
use crate::message::in_force;
use crate::pack::effect_row;
use crate::refusal::Decided;
use crate::row::Place;
use crate::shard::context::Context;

impl Context<'_> {
    /// Returns one slice. Only rows without an expiry are read, so expired outcomes cost nothing.
    pub(crate) fn list_effects(&self, list: &ListEffects) -> Decided {
        if list.state.is_known() {
            return Err(
                Rejection::invalid("state", "must be IN_PROGRESS, IN_DOUBT or PARKED").into()
            );
        }
        let scope = list.scope.as_ref().map(scope_text);
        let (rows, mut next) = self.rows.unending(list.from)?;
        let mut listed = Effects { effects: Vec::new(), scanned: 0, next: None };
        for row in rows {
            let effect = self.as_of(effect_row(row)?);
            if listed.effects.len() >= list.limit.max(1) as usize {
                next = Place::of(row);
                break;
            }
            listed.scanned += 1;
            // An effect of a deleted topic cannot be named any more.
            let is_there = effect.name.topic.is_none_or(|topic| self.topics.contains_key(&topic));
            let fits = is_there
                && effect.name.namespace == list.namespace
                && scope.as_ref().is_none_or(|scope| effect.name.scope == *scope)
                && list.tenant.as_ref().is_none_or(|of| *effect.name.tenant == *in_force(of));
            if fits && super::state_now(self.now, &effect) == list.state {
                listed.effects.push(self.show_effect(effect));
            }
        }
        listed.next = next;
        Ok(Decision::reply(Reply::Effects(Box::new(listed))))
    }
}

fn scope_text(scope: &Scope) -> Text {
    match scope {
        Scope::Op(name) => format!("op/{name}").into(),
        Scope::Delivery(name) => super::delivery_scope(&name.topic.topic, &name.group).into(),
        Scope::Produce(topic) => format!("produce/{}", topic.topic).into(),
    }
}
