-- The order's voucher; see the migration of MySQL. 0025 fills the columns.
ALTER TABLE order_payments ADD COLUMN voucher_id INTEGER NOT NULL DEFAULT 0;
