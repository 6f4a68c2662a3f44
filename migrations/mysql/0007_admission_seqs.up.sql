-- The sequences of a voucher whose stock is split into buckets: a row for each bucket
-- but the first, whose sequence is vouchers.admission_seq. The rows come with the
-- voucher, so how many there are says how many buckets it has, and a voucher that is
-- not split has none.
CREATE TABLE admission_seqs (
    voucher_id BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    seq        BIGINT NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
