ALTER TABLE payments DROP COLUMN voucher_id;
