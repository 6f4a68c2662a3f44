-- The sequences of a voucher whose stock is split into buckets: a row for each bucket
-- but the first, whose sequence is vouchers.admission_seq. The rows come with the
-- voucher, so how many there are says how many buckets it has, and a voucher that is
-- not split has none.
CREATE TABLE admission_seqs (
    voucher_id INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) WITHOUT ROWID;
