-- Version 2: the effect ledger. Effects themselves are records of kind 4.

CREATE TABLE held (
    shard      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    lane       INTEGER NOT NULL,
    offset     INTEGER NOT NULL,
    hash       BLOB NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (shard, generation, lane, offset, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    shard  INTEGER NOT NULL,
    target INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (shard, target, seq)
) STRICT, WITHOUT ROWID;

CREATE VIEW effects AS
SELECT shard, body ->> '$.name.namespace' AS namespace, body ->> '$.name.tenant' AS tenant,
       body ->> '$.name.scope' AS scope, body ->> '$.name.key' AS "key", body ->> '$.state' AS state,
       body ->> '$.fence' AS fence, body ->> '$.owner' AS owner, body ->> '$.outcome.code' AS code,
       body ->> '$.outcome.error' AS error,
       strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.updated_at') / 1000.0, 'unixepoch') AS updated_at
FROM (SELECT shard, CAST(body AS TEXT) AS body FROM record WHERE kind = 4);
