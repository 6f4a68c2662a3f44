-- Locks that are row locks: the transaction that has the row FOR UPDATE holds the lock.
-- What it writes here is never committed; others read it uncommitted, to see the
-- holder.
--
-- A table of its own: its rows are locked during the holder's work, and statements
-- about other locks must not wait for them.
CREATE TABLE lock_for_update (
    name       VARBINARY(256)  NOT NULL PRIMARY KEY,
    -- identifies the acquisition, never used twice
    holder     VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
    owner      VARBINARY(256)  NULL,
    -- the server's id of the holder's connection
    connection BIGINT UNSIGNED NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
