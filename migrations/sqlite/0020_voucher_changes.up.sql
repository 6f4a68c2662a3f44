-- What administrators change of a voucher. revision counts the changes: an order's transaction
-- compares it, and Redis has the revision that it was told of last.
ALTER TABLE vouchers ADD COLUMN paused BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE vouchers ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;

-- The changes, one row for each revision. They stay when the voucher is deleted.
CREATE TABLE voucher_changes (
    voucher_id INTEGER      NOT NULL,
    revision   INTEGER      NOT NULL,
    changed_at DATETIME     NOT NULL,
    author     TEXT         NOT NULL,
    address    TEXT         NOT NULL,
    request_id TEXT         NOT NULL,
    -- a list of field, from, to
    fields     TEXT         NOT NULL,
    PRIMARY KEY (voucher_id, revision)
);

-- The revision of the voucher, in each part of its stock: an order that takes from a part reads no other row.
ALTER TABLE stock_parts ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
