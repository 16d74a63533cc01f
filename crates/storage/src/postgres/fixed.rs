//! Statements that are written out, each with its bound.

use super::sql::{Bound, Sql};

/// A time of this database in milliseconds.
macro_rules! ms {
    ($of:literal) => {
        concat!("(extract(epoch FROM ", $of, ") * 1000)::int8")
    };
}
/// What is shown of `seen`, and of all shards.
macro_rules! shown {
    () => {
        concat!(
            "SELECT NULL::int8, NULL::int8, node, NULL::int8, address, version, rules, draining, drained, ",
            ms!("joined_at"), ", ", ms!("renewed_at"), ", ", ms!("until"), ", ", ms!("(SELECT now FROM clock)"),
            " FROM seen UNION ALL SELECT shard, epoch, node, put, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM shard"
        )
    };
}

/// Each statement with the rows and buffers it may touch for each row that it is asked for.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: ($rows:expr, $buffers:expr) = $sql:expr;)*) => {
        $($(#[$doc])* pub(super) static $name: Sql =
            Sql::fixed(stringify!($name), $sql, Bound::each($rows, $buffers));)*

        /// All of them.
        #[cfg(test)]
        pub(super) static FIXED: &[&Sql] = &[$(&$name),*];
    };
}

statements! {
    /// Locks out every claim until the transaction ends; a row only while the epoch is `$2`.
    FENCE: (1, 8) = "SELECT 1 FROM shard WHERE shard = $1 AND epoch = $2 FOR NO KEY UPDATE";

    /// The head of batch `$2` under the epoch `$7`, and the time. Where its predecessor is not the last, or the
    /// ownership is over, its number is null, which no head may have: that ends the transaction, whatever was
    /// sent behind it.
    HEAD: (3, 32) = "INSERT INTO head (shard, batch, epoch, now, clean, body) VALUES ($1,
    CASE WHEN EXISTS (SELECT FROM shard WHERE shard = $1 AND epoch = $7)
          AND CASE WHEN $2::int8 = 1 THEN NOT EXISTS (SELECT FROM head WHERE shard = $1)
                   ELSE EXISTS (SELECT FROM head WHERE shard = $1 AND batch = $2 - 1) END
    THEN $2 END, $3, $4, $5, $6)
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::int8";

    HEADS: (1, 2) = "SELECT batch, epoch, now, clean, body FROM head WHERE shard = $1
    AND batch >= (SELECT clean FROM head WHERE shard = $1 ORDER BY batch DESC LIMIT 1)";

    CLAIM: (1, 16) = "INSERT INTO shard (shard, epoch) VALUES ($1, 1)
    ON CONFLICT (shard) DO UPDATE SET epoch = shard.epoch + 1
    RETURNING epoch, (extract(epoch FROM clock_timestamp()) * 1000)::int8";

    OWNER: (1, 8) = "SELECT 1 FROM shard WHERE shard = $1 AND epoch = $2";

    /// Pages that lie wholly inside.
    TRIM: (2, 4) = "DELETE FROM page WHERE ctid = ANY(ARRAY(
    SELECT x.ctid FROM unnest($2::int8[], $3::int8[], $4::int8[], $5::int8[]) AS u(topic, lane, low, high),
    LATERAL (SELECT t.ctid FROM page t WHERE t.shard = $1 AND t.topic = u.topic AND t.lane = u.lane
             AND t.last >= u.low AND t.last < u.high AND t.base >= u.low OFFSET 0) x))";

    TOUCH: (2, 20) = "UPDATE record SET expires = y.expires, bucket = y.bucket FROM (
    SELECT x.ctid, u.expires, u.bucket
    FROM unnest($2::int8[], $3::bytea[], $4::int8[], $5::int8[]) AS u(kind, hash, expires, bucket),
    LATERAL (SELECT t.ctid FROM record t
             WHERE t.shard = $1 AND t.kind = u.kind AND t.hash = u.hash LIMIT 1) x) AS y
    WHERE record.ctid = y.ctid";

    EXPIRE: (1, 3) = "DELETE FROM record WHERE shard = $1 AND bucket >= $2 AND bucket < $3 AND expires < $3";

    ENDING: (1, 2) = "SELECT kind, hash, expires, bucket FROM record
    WHERE shard = $1 AND bucket >= $2 AND bucket < $3 ORDER BY bucket LIMIT $4";

    /// By the index of buckets. The sum keeps the key's index, which would read them all, out of it.
    UNENDING: (1, 2) = "SELECT kind, hash, expires, bucket, body FROM record
    WHERE shard = $1 AND kind + 0 = $2 AND bucket >= $3 AND (bucket > $3 OR hash >= $4)
    ORDER BY bucket, hash LIMIT $5";

    /// One statement: what the node says of itself, and everything it is shown. Its own row is as it is after it.
    /// Rows of nodes that are long gone go. A node of a storage that was restored since says nothing: the others would
    /// leave shards to it that it may not claim.
    RENEW: (4, 16) = concat!(
    "WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
    renewed AS (
        INSERT INTO node (node, address, version, rules, draining, joined_at, renewed_at, until)
        SELECT $1, $2, $3, $4, $5, now, now, now + $6::int8 * interval '1 ms' FROM clock
        WHERE EXISTS (SELECT FROM meta WHERE name = 'identity'
            AND value::json ->> 'storage' = $7 AND (value::json ->> 'restore')::int8 = $8)
        ON CONFLICT (node) DO UPDATE
        SET draining = EXCLUDED.draining, renewed_at = EXCLUDED.renewed_at, until = EXCLUDED.until
        RETURNING node, address, version, rules, draining, drained, joined_at, renewed_at, until),
    gone AS (DELETE FROM node WHERE node <> $1 AND until < clock_timestamp() - interval '1 h'),
    seen AS (
        SELECT * FROM renewed UNION ALL
        SELECT node, address, version, rules, draining, drained, joined_at, renewed_at, until
        FROM node WHERE node <> $1) ",
    shown!()
);

    /// The same without a word of one's own.
    LOOK: (1, 4) = concat!(
    "WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), seen AS (SELECT * FROM node) ",
    shown!()
);

    CLAIM_AS: (2, 24) = concat!(
    "UPDATE shard SET epoch = epoch + 1, node = $3, since = clock_timestamp()
    WHERE shard = $1 AND epoch = $2 AND EXISTS (SELECT FROM meta WHERE name = 'identity'
        AND value::json ->> 'storage' = $4 AND (value::json ->> 'restore')::int8 = $5)
    RETURNING epoch, ",
    ms!("clock_timestamp()")
);

    GIVE_UP: (1, 16) = "UPDATE shard SET node = NULL WHERE shard = $1 AND epoch = $2";

    /// What a row says it was renewed at tells whether it is still the one that was seen.
    VOID: (1, 8) = concat!(
    "UPDATE node SET until = renewed_at FROM unnest($1::bigint[], $2::bigint[]) AS seen (node, renewed)
     WHERE node.node = seen.node AND ",
    ms!("renewed_at"),
    " = seen.renewed"
);

    LEAVE: (1, 8) = "DELETE FROM node WHERE node = $1";

    /// How far each shard has come.
    FAR: (2, 8) = concat!(
    "SELECT ",
    ms!("since"),
    ", (SELECT max(batch) FROM head WHERE head.shard = shard.shard) FROM shard ORDER BY shard"
);

    DRAIN: (1, 16) = "UPDATE node SET drained = $2::int8 <> 0 WHERE node = $1";

    PUT: (1, 16) = "UPDATE shard SET put = nullif($2::int8, 0) WHERE shard = $1";

    IDENTITY: (1, 8) = "SELECT value FROM meta WHERE name = 'identity'";

    META: (1, 8) = "SELECT value FROM meta WHERE name = $1";

    PUT_META: (1, 24) = "INSERT INTO meta (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";
}
