-- Which Redis belongs to this database. Redis has the same generation and mark, and running instances replace the mark
-- all the time, in both. So a copy of either store no longer fits the other one after some seconds. The generation grows
-- when the pair was broken and is made anew; a voucher has the one under which it was closed or opened last, and a
-- process of an earlier one writes nothing of it any more. redis is where Redis is, for people; clean says that the last
-- instance stopped, and left nothing in Redis that is not here.
CREATE TABLE pairing (
    id         INT          NOT NULL PRIMARY KEY,
    generation BIGINT       NOT NULL,
    mark       VARCHAR(32)  NOT NULL,
    next_mark  VARCHAR(32)  NOT NULL,
    redis      VARCHAR(500) NOT NULL,
    clean      BOOLEAN      NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT INTO pairing (id, generation, mark, next_mark, redis, clean) VALUES (1, 0, '', '', '', FALSE);
ALTER TABLE vouchers ADD COLUMN admission_generation BIGINT NOT NULL DEFAULT 0;
