-- A voucher. Its row is the hot row: every order of the voucher updates stock.
--
-- Times are UTC with microseconds. UNSIGNED is the last line of defence against
-- overselling: no statement can take the stock below 0.
CREATE TABLE vouchers (
    id            BIGINT          NOT NULL PRIMARY KEY,
    title         VARCHAR(200)    NOT NULL,
    price_cents   BIGINT          NOT NULL,
    value_cents   BIGINT          NOT NULL,
    initial_stock BIGINT UNSIGNED NOT NULL,
    stock         BIGINT UNSIGNED NOT NULL,
    -- counts the writes to stock, for optimistic concurrency
    version       BIGINT          NOT NULL,
    -- the newest fencing token that has written
    fence_token   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    begin_at      DATETIME(6)     NOT NULL,
    end_at        DATETIME(6)     NOT NULL,
    policy        JSON            NOT NULL,
    created_at    DATETIME(6)     NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
