-- The order's voucher, which decides where Vitess keeps the row: in the shard of the voucher and its orders. This and the next
-- migrations have a statement each that is done or not, or that can be repeated. 0025 fills the columns.
ALTER TABLE order_payments ADD COLUMN voucher_id BIGINT NOT NULL DEFAULT 0;
