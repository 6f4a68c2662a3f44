-- A voucher. Its row is the hot row: every order of the voucher updates stock.
--
-- Times are UTC text with microseconds, which sorts by time. The CHECK is the last line
-- of defence against overselling: no statement can take the stock below 0.
CREATE TABLE vouchers (
    id            INTEGER  NOT NULL PRIMARY KEY,
    title         TEXT     NOT NULL,
    price_cents   INTEGER  NOT NULL,
    value_cents   INTEGER  NOT NULL,
    initial_stock INTEGER  NOT NULL,
    stock         INTEGER  NOT NULL CHECK (stock >= 0),
    -- counts the writes to stock, for optimistic concurrency
    version       INTEGER  NOT NULL,
    -- the newest fencing token that has written
    fence_token   INTEGER  NOT NULL DEFAULT 0,
    begin_at      DATETIME NOT NULL,
    end_at        DATETIME NOT NULL,
    policy        TEXT     NOT NULL,
    created_at    DATETIME NOT NULL
);
