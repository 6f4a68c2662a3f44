-- Locks that are rows: who inserts the row holds the lock, who deletes it gives it
-- back. Names are bytes: "a" and "A" are two. Rows without an end stay until they
-- are deleted; the others count by the server's clock, in UTC.
CREATE TABLE lock_rows (
    mechanism  VARCHAR(32)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name       VARBINARY(256) NOT NULL,
    -- the acquisition, unique for ever: what a release and a renewal compare
    holder     VARCHAR(64)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- who that is, for a reader
    owner      VARBINARY(256) NOT NULL,
    expires_at DATETIME(6)    NULL,
    PRIMARY KEY (mechanism, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
