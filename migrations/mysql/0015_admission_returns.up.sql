-- How many orders of a bucket have given their vouchers back within an epoch. Redis has the
-- same total of what has arrived there; see the package ledger. A row for each bucket of a
-- voucher that asks for payment is created with the voucher.
CREATE TABLE admission_returns (
    voucher_id BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    epoch      BIGINT NOT NULL,
    total      BIGINT NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
