ALTER TABLE vouchers DROP COLUMN admission_generation;
DROP TABLE pairing;
