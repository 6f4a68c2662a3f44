-- See 0022. Money of an unknown order has no voucher: 0.
ALTER TABLE payments ADD COLUMN voucher_id BIGINT NOT NULL DEFAULT 0;
