-- See migrations/mysql.
CREATE TABLE pairing (
    id         INTEGER NOT NULL PRIMARY KEY,
    generation INTEGER NOT NULL,
    mark       TEXT    NOT NULL,
    next_mark  TEXT    NOT NULL,
    redis      TEXT    NOT NULL,
    clean      BOOLEAN NOT NULL
);
INSERT INTO pairing (id, generation, mark, next_mark, redis, clean) VALUES (1, 0, '', '', '', FALSE);
ALTER TABLE vouchers ADD COLUMN admission_generation INTEGER NOT NULL DEFAULT 0;
