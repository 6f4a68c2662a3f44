-- SQLite has no such table; see 0015. The number is taken here so that both schemas count alike.
SELECT 1;
