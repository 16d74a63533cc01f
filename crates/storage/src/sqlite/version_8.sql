-- Version 8: administrative acts that no shard commits.

CREATE TABLE act (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL
) STRICT;
