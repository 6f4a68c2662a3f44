DROP TABLE log_flushes;
