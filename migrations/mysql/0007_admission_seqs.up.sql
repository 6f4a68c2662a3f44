-- The sequence numbers of a voucher whose stock is split into buckets: a row for each
-- bucket but the first, whose number is vouchers.admission_seq. The rows are created with
-- the voucher, so their number plus one is the number of buckets. A voucher that is not
-- split has no row.
CREATE TABLE admission_seqs (
    voucher_id BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    seq        BIGINT NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
