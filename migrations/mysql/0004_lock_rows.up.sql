-- Locks that are rows: inserting the row acquires the lock, deleting it releases the
-- lock. Names are bytes: "a" and "A" differ. Rows without an end stay until they are
-- deleted; the others expire by the server's clock, in UTC.
CREATE TABLE lock_rows (
    mechanism  VARCHAR(32)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name       VARBINARY(256) NOT NULL,
    -- identifies the acquisition, never used twice; release and renewal compare it
    holder     VARCHAR(64)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- the owner, for people
    owner      VARBINARY(256) NOT NULL,
    expires_at DATETIME(6)    NULL,
    PRIMARY KEY (mechanism, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
