DROP TABLE lock_for_update;
