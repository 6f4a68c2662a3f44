-- How long a buyer has to pay, in seconds; 0 for a voucher that asks for no payment.
ALTER TABLE vouchers ADD COLUMN pay_within_s INTEGER NOT NULL DEFAULT 0;
