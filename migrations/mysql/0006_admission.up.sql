-- Vouchers that are sold by admission. The epoch is 0 for all others, odd while
-- admission is closed and even while it is open; it only grows, and an order that was
-- accepted under an epoch that is over is not persisted. The sequence number is the
-- greatest of the persisted orders: a Redis with a smaller one has lost data.
ALTER TABLE vouchers
    ADD COLUMN admission_epoch BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN admission_seq   BIGINT NOT NULL DEFAULT 0;
