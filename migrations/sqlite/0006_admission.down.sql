ALTER TABLE vouchers DROP COLUMN admission_epoch;
ALTER TABLE vouchers DROP COLUMN admission_seq;
