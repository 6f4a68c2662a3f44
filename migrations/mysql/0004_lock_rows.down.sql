DROP TABLE lock_rows;
