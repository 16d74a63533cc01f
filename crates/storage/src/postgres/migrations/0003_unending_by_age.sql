-- The bucket of a record without an end says since when it is there, so that the index of buckets serves both. Those of
-- before stay in the last bucket there is, and are listed last. Programs of before go on as they were; their lists of
-- effects lack what others began.

DROP INDEX record_unending;
