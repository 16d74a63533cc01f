-- One table per kind of row; every key begins with the shard. Keys and columns are plain numbers and texts;
-- what only the core reads is a packed body. Nothing is updated in place at every commit.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- `node` has claimed it last; null: it has given it up.
CREATE TABLE shard (
    shard BIGINT PRIMARY KEY,
    epoch BIGINT NOT NULL,
    node  BIGINT
);

-- Processes that serve shards, each until its lease is over by the clock of this server.
CREATE TABLE node (
    node     BIGINT PRIMARY KEY,
    address  TEXT NOT NULL,
    version  TEXT NOT NULL,
    draining BOOLEAN NOT NULL,
    until    TIMESTAMPTZ NOT NULL
);

CREATE TABLE head (
    shard BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    now   BIGINT NOT NULL,
    clean BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, batch)
);

CREATE TABLE topic (
    shard     BIGINT NOT NULL,
    topic     BIGINT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (shard, topic)
);

-- `group` is a word of SQL.
CREATE TABLE consumer_group (
    shard    BIGINT NOT NULL,
    group_id BIGINT NOT NULL,
    topic    BIGINT NOT NULL,
    name     TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (shard, group_id)
);

CREATE TABLE lane (
    shard BIGINT NOT NULL,
    topic BIGINT NOT NULL,
    lane  BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, topic, lane)
);

CREATE TABLE cursor (
    shard      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lane       BIGINT NOT NULL,
    body       BYTEA NOT NULL,
    PRIMARY KEY (shard, generation, lane)
);

CREATE TABLE mark (
    shard BIGINT NOT NULL,
    kind  BIGINT NOT NULL,
    id    BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, kind, id)
);

CREATE TABLE page (
    shard BIGINT NOT NULL,
    topic BIGINT NOT NULL,
    lane  BIGINT NOT NULL,
    last  BIGINT NOT NULL,
    base  BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    at    BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, topic, lane, last)
);
-- Compressing messages would cost the committing path more than it saves.
ALTER TABLE page ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE block (
    shard      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lane       BIGINT NOT NULL,
    block      BIGINT NOT NULL,
    batch      BIGINT NOT NULL,
    body       BYTEA NOT NULL,
    PRIMARY KEY (shard, generation, lane, block, batch)
);
ALTER TABLE block ALTER COLUMN body SET STORAGE EXTERNAL;

-- Text that clients wrote may hold characters that TEXT refuses.
CREATE TABLE note (
    shard      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lane       BIGINT NOT NULL,
    "offset"   BIGINT NOT NULL,
    body       BYTEA NOT NULL,
    PRIMARY KEY (shard, generation, lane, "offset")
);

CREATE TABLE owner (
    shard BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, owner)
);

CREATE TABLE record (
    shard   BIGINT NOT NULL,
    kind    BIGINT NOT NULL,
    hash    BYTEA NOT NULL,
    expires BIGINT NOT NULL,
    bucket  BIGINT NOT NULL,
    body    BYTEA NOT NULL,
    PRIMARY KEY (shard, kind, hash)
);
CREATE INDEX record_bucket ON record (shard, bucket);
-- Records without an end, in the order of their hashes.
CREATE INDEX record_unending ON record (shard, kind, hash) WHERE bucket = 9223372036854775807;

CREATE TABLE dead (
    shard    BIGINT NOT NULL,
    topic    BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    lane     BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    "group"  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       BIGINT NOT NULL,
    state    TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (shard, topic, seq)
);

CREATE TABLE garbage (
    shard BIGINT NOT NULL,
    id    BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, id)
);

CREATE TABLE held (
    shard      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lane       BIGINT NOT NULL,
    "offset"   BIGINT NOT NULL,
    hash       BYTEA NOT NULL,
    body       BYTEA NOT NULL,
    PRIMARY KEY (shard, generation, lane, "offset", hash)
);

CREATE TABLE outbox (
    shard  BIGINT NOT NULL,
    target BIGINT NOT NULL,
    seq    BIGINT NOT NULL,
    body   BYTEA NOT NULL,
    PRIMARY KEY (shard, target, seq)
);

CREATE TABLE pointer (
    shard         BIGINT NOT NULL,
    topic         BIGINT NOT NULL,
    dataset       BYTEA NOT NULL,
    partition_key BYTEA NOT NULL,
    body          TEXT NOT NULL,
    PRIMARY KEY (shard, topic, dataset, partition_key)
);

CREATE TABLE history (
    shard BIGINT NOT NULL,
    topic BIGINT NOT NULL,
    lane  BIGINT NOT NULL,
    block BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (shard, topic, lane, block, batch)
);

-- `namespace` is a hash; the name is in the body.
CREATE TABLE audit (
    shard     BIGINT NOT NULL,
    namespace BYTEA NOT NULL,
    last      BIGINT NOT NULL,
    body      BYTEA NOT NULL,
    PRIMARY KEY (shard, namespace, last)
);

-- For people with `psql`.

CREATE VIEW pages AS
SELECT page.shard, topic.name AS topic, page.lane AS partition, page.base AS first_offset,
       page.last AS last_offset, page.last - page.base + 1 AS messages, page.bytes,
       to_timestamp(page.at / 1000.0) AS at
FROM page JOIN topic ON topic.shard = page.shard AND topic.topic = page.topic;

CREATE VIEW dead_letters AS
SELECT dead.shard, topic.name AS topic, dead.seq, dead.lane AS partition, dead."offset", dead."group",
       dead.reason, dead.state, to_timestamp(dead.at / 1000.0) AS at, dead.body
FROM dead JOIN topic ON topic.shard = dead.shard AND topic.topic = dead.topic;

CREATE VIEW groups AS
SELECT consumer_group.shard, topic.name AS topic, consumer_group.name AS "group", consumer_group.body
FROM consumer_group
JOIN topic ON topic.shard = consumer_group.shard AND topic.topic = consumer_group.topic;

CREATE VIEW effects AS
SELECT shard, body #>> '{name,namespace}' AS namespace, body #>> '{name,tenant}' AS tenant,
       body #>> '{name,scope}' AS scope, body #>> '{name,key}' AS "key", body ->> 'state' AS state,
       (body ->> 'fence')::BIGINT AS fence, body ->> 'owner' AS owner,
       body #>> '{outcome,code}' AS code, body #>> '{outcome,error}' AS error,
       to_timestamp((body ->> 'updated_at')::BIGINT / 1000.0) AS updated_at
FROM (SELECT shard, convert_from(body, 'UTF8')::JSON AS body FROM record WHERE kind = 4) AS effect;
