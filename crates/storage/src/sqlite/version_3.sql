-- Version 3: pointers, set by commits; what messages went through; the chain of the ledger's decisions.

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

-- `namespace` is a hash; the name is in the body. As with pages: bodies are large.
CREATE TABLE audit (
    shard     INTEGER NOT NULL,
    namespace BLOB NOT NULL,
    last      INTEGER NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (shard, namespace, last)
) STRICT;
