-- Rows without a meaning. A process changes one of them when it is about to act on what
-- another process has committed: its own commit waits for the disk, and all that was
-- committed before is on the disk then, too.
CREATE TABLE log_flushes (
    id      INT    NOT NULL PRIMARY KEY,
    flushes BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
