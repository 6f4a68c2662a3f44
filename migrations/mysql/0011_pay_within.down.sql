ALTER TABLE vouchers DROP COLUMN pay_within_s;
