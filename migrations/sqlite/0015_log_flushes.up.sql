-- SQLite needs no such table: it writes a commit before anybody sees it. The number is taken
-- here so that both schemas count alike.
SELECT 1;
