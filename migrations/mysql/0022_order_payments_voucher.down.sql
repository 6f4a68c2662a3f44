ALTER TABLE order_payments DROP COLUMN voucher_id;
