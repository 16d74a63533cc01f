-- Version 4: records lie in the order in which they came and are found by an index. Their keys are hashes,
-- whose neighbours are strangers: by key each record would cost a page of its own at every change.

DROP VIEW effects;
ALTER TABLE record RENAME TO record_3;
CREATE TABLE record (
    shard   INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    hash    BLOB NOT NULL,
    expires INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (shard, kind, hash)
) STRICT;
INSERT INTO record SELECT shard, kind, hash, expires, bucket, body FROM record_3 ORDER BY shard, bucket;
DROP TABLE record_3;
CREATE INDEX record_bucket ON record (shard, bucket) WHERE bucket < 9223372036854775807;
-- Records without an end, in the order of their hashes.
CREATE INDEX record_unending ON record (shard, kind, hash) WHERE bucket = 9223372036854775807;

CREATE VIEW effects AS
SELECT shard, body ->> '$.name.namespace' AS namespace, body ->> '$.name.tenant' AS tenant,
       body ->> '$.name.scope' AS scope, body ->> '$.name.key' AS "key", body ->> '$.state' AS state,
       body ->> '$.fence' AS fence, body ->> '$.owner' AS owner, body ->> '$.outcome.code' AS code,
       body ->> '$.outcome.error' AS error,
       strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.updated_at') / 1000.0, 'unixepoch') AS updated_at
FROM (SELECT shard, CAST(body AS TEXT) AS body FROM record WHERE kind = 4);
