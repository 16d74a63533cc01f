-- Version 3: pointers, set by commits.

CREATE TABLE pointer (
    shard         INTEGER NOT NULL,
    topic         INTEGER NOT NULL,
    dataset       BLOB NOT NULL,
    partition_key TEXT NOT NULL,
    body          TEXT NOT NULL,
    PRIMARY KEY (shard, topic, dataset, partition_key)
) STRICT, WITHOUT ROWID;
