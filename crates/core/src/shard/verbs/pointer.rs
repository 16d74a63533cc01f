//! Pointers, set by the commit of the message that produced the data they point to.
//!
//! A later attempt of the same message may have written to another location, so it may move its
//! pointers. Another message must send `replace`.

use crate::change::{Change, Decision, Lookup, PointerRow, Reads};
use crate::command::{
    Commit, ListPointers, Missing, Part, Pointer, PointerName, PointerQuery, Pointers, Rejection,
    Reply, SetPointer,
};
use crate::id::{Text, TopicId};
use crate::limits::{
    POINTER_LOCATION_BYTES_MAX, POINTER_ROWS_MAX, POINTER_TEXT_BYTES_MAX, POINTERS_MAX,
};
use crate::message::Message;
use crate::pack::{dataset_hash, pointer_row};
use crate::refusal::{Decided, Refusal};
use crate::row::Key;
use crate::shard::context::Context;
use crate::shard::state::open_delivery::OpenDelivery;

fn key_of(topic: TopicId, name: &PointerName) -> Key {
    let PointerName { dataset, version, partition_key } = name;
    let dataset = dataset_hash(dataset, version);
    Key::Pointer { topic, dataset, partition_key: partition_key.clone() }
}

fn check_text(field: &'static str, text: &str) -> Result<(), Rejection> {
    let is_so =
        (1..=POINTER_TEXT_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if is_so {
        Ok(())
    } else {
        Err(Rejection::invalid(field, "must be 1 to 255 bytes without control characters"))
    }
}

fn check_name(name: &PointerName) -> Result<(), Rejection> {
    check_text("dataset", &name.dataset)?;
    check_text("version", &name.version)?;
    check_text("partition_key", &name.partition_key)
}

fn check(set: &SetPointer) -> Result<(), Rejection> {
    check_name(&set.name)?;
    if !(1..=POINTER_LOCATION_BYTES_MAX).contains(&set.location.len()) {
        return Err(Rejection::invalid("location", "must be 1 to 2048 bytes"));
    }
    if set.checksum.as_ref().is_some_and(|sum| sum.len() > POINTER_TEXT_BYTES_MAX) {
        return Err(Rejection::invalid("checksum", "must be at most 255 bytes"));
    }
    Ok(())
}

/// Checks the pointers of a commit, without the stored ones.
pub(crate) fn check_pointers(pointers: &[SetPointer]) -> Result<(), Rejection> {
    if pointers.len() > POINTERS_MAX {
        return Err(Rejection::invalid("pointers", "at most 100 are allowed"));
    }
    for (index, set) in pointers.iter().enumerate() {
        let again = || pointers[..index].iter().any(|before| before.name == set.name);
        let checked = check(set).and_then(|()| {
            if again() { Err(Rejection::invalid("partition_key", "is set twice")) } else { Ok(()) }
        });
        let part = Part::Pointers;
        checked.map_err(|why| Rejection::InPart { part, index, why: Box::new(why) })?;
    }
    Ok(())
}

pub(crate) fn pointer_reads(topic: TopicId, commit: &Commit) -> impl Iterator<Item = Lookup> + '_ {
    commit.pointers.iter().map(move |set| Lookup::Row(key_of(topic, &set.name)))
}

impl Context<'_> {
    /// Sets the pointers of a commit: all of them or none.
    pub(crate) fn point(
        &self,
        commit: &Commit,
        held: &OpenDelivery<'_>,
        message: &Message,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        let topic = held.topic.row.id;
        let id = message.origin.unwrap_or_else(|| self.id_of(held, message));
        let mut needs: Reads = Vec::new();
        for (index, set) in commit.pointers.iter().enumerate() {
            let before = match self.rows.row(key_of(topic, &set.name)) {
                Ok(row) => row.map(pointer_row).transpose()?.map(|row| row.pointer),
                Err(more) => {
                    needs.extend(more);
                    continue;
                }
            };
            if let Some(before) = before {
                if (&before.location, &before.checksum) == (&set.location, &set.checksum) {
                    continue;
                }
                let is_same = before.message == id && before.group == held.group.row.name;
                if !is_same && !set.replace {
                    let why = Rejection::PointerExists(Box::new(before));
                    return Err(Refusal::from(why).in_part(Part::Pointers, index));
                }
            }
            let SetPointer { name, location, checksum, replace: _ } = set.clone();
            let pointer = Pointer {
                name,
                location,
                checksum,
                committed_at: self.now,
                message: id,
                group: held.group.row.name.clone(),
                attempt: held.entry.attempt,
            };
            changes.push(Change::Pointer(Box::new(PointerRow { topic, pointer })));
        }
        if needs.is_empty() { Ok(()) } else { Err(needs.into()) }
    }

    pub(crate) fn view_pointer(&self, query: &PointerQuery) -> Decided {
        check_name(&query.name)?;
        let topic = self.topic_named(&query.topic)?.row.id;
        let row = self.rows.row(key_of(topic, &query.name))?;
        let row = row.ok_or(Rejection::NotFound(Missing::Pointer))?;
        Ok(Decision::reply(Reply::Pointer(Box::new(pointer_row(row)?.pointer))))
    }

    pub(crate) fn list_pointers(&self, list: &ListPointers) -> Decided {
        let ListPointers { dataset, version, after, limit, .. } = list;
        check_text("dataset", dataset)?;
        check_text("version", version)?;
        let topic = self.topic_named(&list.topic)?.row.id;
        let after = after.clone().unwrap_or_else(|| Text::from(""));
        let (rows, is_all) = self.rows.pointers(topic, dataset_hash(dataset, version), after)?;
        let limit = (*limit as usize).min(POINTER_ROWS_MAX);
        let more = !is_all || rows.len() > limit;
        let pointers = rows.into_iter().take(limit).map(|row| Ok(pointer_row(row)?.pointer));
        let pointers = pointers.collect::<Result<_, Refusal>>()?;
        Ok(Decision::reply(Reply::Pointers(Box::new(Pointers { pointers, more }))))
    }
}
