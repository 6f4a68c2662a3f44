ALTER TABLE vouchers DROP COLUMN last_writer;
