DROP TABLE admission_returns;
