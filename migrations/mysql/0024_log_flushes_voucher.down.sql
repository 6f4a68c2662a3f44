-- The rows have no meaning, and more than one of them may have the same id. The first statement can be repeated.
DELETE FROM log_flushes;
ALTER TABLE log_flushes DROP PRIMARY KEY, DROP COLUMN voucher_id, ADD PRIMARY KEY (id);
