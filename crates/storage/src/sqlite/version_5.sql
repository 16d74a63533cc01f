-- Version 5: the bucket of a record without an end says since when it is there, so that one index, which grows at
-- its ends, serves both. Those of before stay in the last bucket there is, and are listed last.

DROP INDEX record_unending;
DROP INDEX record_bucket;
CREATE INDEX record_bucket ON record (shard, bucket);
