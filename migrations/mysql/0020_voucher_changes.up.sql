-- What administrators change of a voucher. revision counts the changes: an order's transaction
-- compares it, and Redis has the revision that it was told of last.
ALTER TABLE vouchers
    ADD COLUMN paused   BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN revision BIGINT  NOT NULL DEFAULT 1;

-- The changes, one row for each revision. They stay when the voucher is deleted.
CREATE TABLE voucher_changes (
    voucher_id BIGINT       NOT NULL,
    revision   BIGINT       NOT NULL,
    changed_at DATETIME(6)  NOT NULL,
    author     VARCHAR(64)  NOT NULL,
    address    VARCHAR(64)  NOT NULL,
    request_id VARCHAR(64)  NOT NULL,
    -- a list of field, from, to
    fields     JSON         NOT NULL,
    PRIMARY KEY (voucher_id, revision)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The revision of the voucher, in each part of its stock: an order that takes from a part reads no other row.
ALTER TABLE stock_parts ADD COLUMN revision BIGINT NOT NULL DEFAULT 1;
