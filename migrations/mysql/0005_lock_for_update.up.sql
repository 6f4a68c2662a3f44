-- Locks that are row locks: who has the row FOR UPDATE in an open transaction
-- holds the lock. What such a transaction writes here is never committed; others
-- read it uncommitted, to see who holds.
--
-- A table of its own: its rows are locked for as long as somebody works, and no
-- statement about other locks shall meet them.
CREATE TABLE lock_for_update (
    name       VARBINARY(256)  NOT NULL PRIMARY KEY,
    -- the acquisition, unique for ever
    holder     VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
    owner      VARBINARY(256)  NULL,
    -- the server's number of the holder's connection
    connection BIGINT UNSIGNED NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
