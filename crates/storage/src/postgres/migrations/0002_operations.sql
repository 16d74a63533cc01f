-- What people ask of nodes and shards, and what tells two processes at one address apart. Programs of before
-- leave these as they are made here.

ALTER TABLE node
    ADD COLUMN joined_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN renewed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    -- A person has said that it should take no shards.
    ADD COLUMN drained    BOOLEAN NOT NULL DEFAULT FALSE,
    -- Which rules of spreading it follows.
    ADD COLUMN rules      BIGINT NOT NULL DEFAULT 1;

ALTER TABLE shard
    -- The node that a person has put it on.
    ADD COLUMN put   BIGINT,
    -- When it was last claimed.
    ADD COLUMN since TIMESTAMPTZ;
