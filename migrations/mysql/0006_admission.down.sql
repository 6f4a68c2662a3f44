ALTER TABLE vouchers DROP COLUMN admission_epoch, DROP COLUMN admission_seq;
