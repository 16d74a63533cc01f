//! Effects: rows that people may read, so their body is JSON text.

use crate::effect::{EffectName, EffectRow};
use crate::pack::json_rows::{json, misplaced, parse};
use crate::pack::{Damaged, hash16};
use crate::row::{Columns, Hash16, Key, RecordKind, Row, UNENDING};
use crate::time::Timestamp;

/// Returns the hash by which an effect is looked up.
pub(crate) fn effect_hash(name: &EffectName) -> Hash16 {
    let EffectName { namespace, tenant, topic, scope, key } = name;
    hash16(RecordKind::Effect, &(namespace, tenant, topic, scope, key))
}

pub(super) fn put_effect(effect: &EffectRow) -> Row {
    let expires = effect.expires;
    let bucket = if expires == Timestamp::MAX { UNENDING + effect.born.0 } else { expires.0 };
    let hash = effect_hash(&effect.name);
    Row {
        key: Key::Record { kind: RecordKind::Effect, hash },
        columns: Columns::Record { expires, bucket },
        body: json(effect),
    }
}

/// Unpacks an effect.
pub(crate) fn effect_row(row: &Row) -> Result<EffectRow, Damaged> {
    let (Key::Record { kind: RecordKind::Effect, .. }, Columns::Record { expires, .. }) =
        (&row.key, &row.columns)
    else {
        return Err(misplaced(row));
    };
    Ok(EffectRow { expires: *expires, ..parse(row)? })
}
