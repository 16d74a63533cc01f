-- What a data directory holds. One table per kind of row; every key begins with the shard.
-- Keys and columns are plain numbers and texts; what only the core reads is a packed body.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE shard (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL
) STRICT;

CREATE TABLE head (
    shard INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    now   INTEGER NOT NULL,
    clean INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, batch)
) STRICT, WITHOUT ROWID;

CREATE TABLE topic (
    shard     INTEGER NOT NULL,
    topic     INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (shard, topic)
) STRICT, WITHOUT ROWID;

-- `group` is a word of SQL.
CREATE TABLE consumer_group (
    shard    INTEGER NOT NULL,
    group_id INTEGER NOT NULL,
    topic    INTEGER NOT NULL,
    name     TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (shard, group_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane (
    shard INTEGER NOT NULL,
    topic INTEGER NOT NULL,
    lane  INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, topic, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursor (
    shard      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    lane       INTEGER NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (shard, generation, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE mark (
    shard INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    id    INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, kind, id)
) STRICT, WITHOUT ROWID;

-- Bodies are large: with a rowid the index stays small, and a range walks it without them.
CREATE TABLE page (
    shard INTEGER NOT NULL,
    topic INTEGER NOT NULL,
    lane  INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    base  INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, topic, lane, last)
) STRICT;

CREATE TABLE block (
    shard      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    lane       INTEGER NOT NULL,
    block      INTEGER NOT NULL,
    batch      INTEGER NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (shard, generation, lane, block, batch)
) STRICT;

CREATE TABLE note (
    shard      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    lane       INTEGER NOT NULL,
    offset     INTEGER NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (shard, generation, lane, offset)
) STRICT, WITHOUT ROWID;

CREATE TABLE owner (
    shard INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (shard, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    shard   INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    hash    BLOB NOT NULL,
    expires INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (shard, kind, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_bucket ON record (shard, bucket);

CREATE TABLE dead (
    shard  INTEGER NOT NULL,
    topic  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    lane   INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    "group" TEXT NOT NULL,
    reason TEXT NOT NULL,
    at     INTEGER NOT NULL,
    state  TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (shard, topic, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE garbage (
    shard INTEGER NOT NULL,
    id    INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

-- For people with `sqlite3`.

CREATE VIEW pages AS
SELECT page.shard, topic.name AS topic, page.lane AS partition, page.base AS first_offset,
       page.last AS last_offset, page.last - page.base + 1 AS messages, page.bytes,
       strftime('%Y-%m-%dT%H:%M:%fZ', page.at / 1000.0, 'unixepoch') AS at
FROM page JOIN topic ON topic.shard = page.shard AND topic.topic = page.topic;

CREATE VIEW dead_letters AS
SELECT dead.shard, topic.name AS topic, dead.seq, dead.lane AS partition, dead.offset, dead."group",
       dead.reason, dead.state, strftime('%Y-%m-%dT%H:%M:%fZ', dead.at / 1000.0, 'unixepoch') AS at,
       dead.body
FROM dead JOIN topic ON topic.shard = dead.shard AND topic.topic = dead.topic;

CREATE VIEW groups AS
SELECT consumer_group.shard, topic.name AS topic, consumer_group.name AS "group", consumer_group.body
FROM consumer_group
JOIN topic ON topic.shard = consumer_group.shard AND topic.topic = consumer_group.topic;
