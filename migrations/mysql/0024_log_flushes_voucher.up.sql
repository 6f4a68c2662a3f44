-- A commit says nothing about those of other servers. On Vitess the row that is changed is in the shard whose commits it
-- waits for; elsewhere the voucher is 0.
ALTER TABLE log_flushes
    ADD COLUMN voucher_id BIGINT NOT NULL DEFAULT 0 FIRST,
    DROP PRIMARY KEY,
    ADD PRIMARY KEY (voucher_id, id);
