-- The bucket of a record that has an end is the millisecond from which on it may go. It was the number of a span of
-- minutes or days, all of which went in one commit. Programs of before never delete what others store; what they store
-- from now on is over in its time, and stays.

-- Ten minutes: what the longest is kept after its end.
UPDATE record SET bucket = expires + 600000 WHERE bucket < 1099511627776;
DELETE FROM mark WHERE kind = 1;
