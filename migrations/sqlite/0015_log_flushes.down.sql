-- See the file that leads up.
SELECT 1;
