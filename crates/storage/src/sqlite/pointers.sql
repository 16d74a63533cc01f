-- Version 3: pointers, set by commits, and what messages went through.

CREATE TABLE pointer (
    shard         INTEGER NOT NULL,
    topic         INTEGER NOT NULL,
    dataset       BLOB NOT NULL,
    partition_key TEXT NOT NULL,
    body          TEXT NOT NULL,
    PRIMARY KEY (shard, topic, dataset, partition_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
    shard INTEGER NOT NULL,
    topic INTEGER NOT NULL,
    lane  INTEGER NOT NULL,
    block INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (shard, topic, lane, block, batch)
) STRICT, WITHOUT ROWID;
