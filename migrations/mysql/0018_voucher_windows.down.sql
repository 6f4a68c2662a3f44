ALTER TABLE vouchers DROP INDEX vouchers_by_end, DROP INDEX vouchers_by_begin;
