//! Statements with constant text, each with its bound.

use super::sql::{Bound, Sql};

/// The SQL for a database time in milliseconds.
macro_rules! ms {
    ($of:literal) => {
        concat!("(extract(epoch FROM ", $of, ") * 1000)::int8")
    };
}
/// The SQL that selects the nodes of `seen`, and all shards.
macro_rules! cluster_rows {
    () => {
        concat!(
            "SELECT NULL::int8, NULL::int8, node, NULL::int8, address, version, rules, draining, drained, ",
            ms!("joined_at"), ", ", ms!("renewed_at"), ", ", ms!("until"), ", ", ms!("(SELECT now FROM clock)"),
            " FROM seen UNION ALL SELECT shard, epoch, node, put, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM shard"
        )
    };
}

/// Defines each statement with the rows and buffers that it may read per requested row.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: ($rows:expr, $buffers:expr) = $sql:expr;)*) => {
        $($(#[$doc])* pub(super) static $name: Sql =
            Sql::fixed(stringify!($name), $sql, Bound::each($rows, $buffers));)*

        /// All statements of this module.
        #[cfg(test)]
        pub(super) static FIXED: &[&Sql] = &[$(&$name),*];
    };
}

statements! {
    /// Blocks every claim until the transaction ends. Returns a row only while the epoch is `$2`.
    FENCE: (1, 8) = "SELECT 1 FROM shard WHERE shard = $1 AND epoch = $2 FOR NO KEY UPDATE";

    /// Inserts the head of batch `$2` under the epoch `$7`, and returns the time. If its
    /// predecessor is not the last batch, or the ownership has ended, the batch number is null. The
    /// column is NOT NULL, so the transaction fails, including all statements that were sent after
    /// this one.
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

    /// Deletes pages that are entirely inside the range.
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

    /// Uses the index on buckets. `kind + 0` prevents the use of the primary key, which would read
    /// all records of the kind.
    UNENDING: (1, 2) = "SELECT kind, hash, expires, bucket, body FROM record
    WHERE shard = $1 AND kind + 0 = $2 AND bucket >= $3 AND (bucket > $3 OR hash >= $4)
    ORDER BY bucket, hash LIMIT $5";

    /// Renews a node's row and returns all nodes and shards, in one statement. The node's own row
    /// is returned as renewed. Rows of nodes whose lease expired more than an hour ago are deleted.
    /// If the storage was restored since the node opened it, the node is not renewed: the other
    /// nodes would leave shards to it that it cannot claim.
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
    cluster_rows!()
);

    /// Returns all nodes and shards, as `RENEW` does, without renewing a node.
    LOOK: (1, 4) = concat!(
    "WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now), seen AS (SELECT * FROM node) ",
    cluster_rows!()
);

    CLAIM_AS: (2, 24) = concat!(
    "UPDATE shard SET epoch = epoch + 1, node = $3, since = clock_timestamp()
    WHERE shard = $1 AND epoch = $2 AND EXISTS (SELECT FROM meta WHERE name = 'identity'
        AND value::json ->> 'storage' = $4 AND (value::json ->> 'restore')::int8 = $5)
    RETURNING epoch, ",
    ms!("clock_timestamp()")
);

    GIVE_UP: (1, 16) = "UPDATE shard SET node = NULL WHERE shard = $1 AND epoch = $2";

    /// Ends the leases of nodes. `renewed_at` must still be the one that was read, so that a later
    /// renewal is kept.
    VOID: (1, 8) = concat!(
    "UPDATE node SET until = renewed_at FROM unnest($1::bigint[], $2::bigint[]) AS seen (node, renewed)
     WHERE node.node = seen.node AND ",
    ms!("renewed_at"),
    " = seen.renewed"
);

    LEAVE: (1, 8) = "DELETE FROM node WHERE node = $1";

    /// Returns the time of the last claim and the last batch of each shard.
    FAR: (2, 8) = concat!(
    "SELECT ",
    ms!("since"),
    ", (SELECT max(batch) FROM head WHERE head.shard = shard.shard) FROM shard ORDER BY shard"
);

    DRAIN: (2, 32) = "WITH done AS (UPDATE node SET drained = $2::int8 <> 0 WHERE node = $1 RETURNING node)
    INSERT INTO act (body) SELECT $3::text FROM done";

    PUT: (2, 32) = "WITH done AS (UPDATE shard SET put = nullif($2::int8, 0) WHERE shard = $1 RETURNING shard)
    INSERT INTO act (body) SELECT $3::text FROM done";

    IDENTITY: (1, 8) = "SELECT value FROM meta WHERE name = 'identity'";

    META: (1, 8) = "SELECT value FROM meta WHERE name = $1";

    /// Also inserts the record of an act unless `$3` is null.
    PUT_META: (2, 40) = "WITH act AS (INSERT INTO act (body) SELECT $3 WHERE $3::text IS NOT NULL)
    INSERT INTO meta (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";

    ACTS: (1, 4) = "SELECT number, body FROM act WHERE number < $1 ORDER BY number DESC LIMIT $2";
}
