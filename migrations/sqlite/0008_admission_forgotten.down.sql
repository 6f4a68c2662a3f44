DROP INDEX admission_uncleared;
ALTER TABLE vouchers DROP COLUMN admission_cleared;
ALTER TABLE vouchers DROP COLUMN admission_forgotten;
