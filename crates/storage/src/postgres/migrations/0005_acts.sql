-- Administrative acts that no shard commits. Programs of before do not record theirs.

CREATE TABLE act (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body TEXT NOT NULL
);
