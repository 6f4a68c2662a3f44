-- What of a voucher's stock is not in the voucher's own row. Under the stock strategy 'rows' these are several counters,
-- under 'units' a row for each unit, which is deleted when it is sold; other vouchers have none. What is left of a voucher
-- is vouchers.stock and the sum of its parts. What comes back goes to vouchers.stock. See 0009 for last_writer.
CREATE TABLE stock_parts (
    voucher_id  BIGINT          NOT NULL,
    part        INT             NOT NULL,
    stock       BIGINT UNSIGNED NOT NULL,
    last_writer BIGINT          NOT NULL DEFAULT 0,
    PRIMARY KEY (voucher_id, part)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
