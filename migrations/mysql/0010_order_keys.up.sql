-- A hash of the idempotency key under which an order was accepted by admission; NULL without a
-- key. It tells a repetition of the order's request from another request of the same user.
ALTER TABLE orders ADD COLUMN key_hash BIGINT NULL;
