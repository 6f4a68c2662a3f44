ALTER TABLE vouchers DROP INDEX admission_uncleared, DROP COLUMN admission_cleared, DROP COLUMN admission_forgotten;
