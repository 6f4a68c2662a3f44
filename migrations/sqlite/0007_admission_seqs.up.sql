-- The sequence numbers of a voucher whose stock is split into buckets: a row for each
-- bucket but the first, whose number is vouchers.admission_seq. The rows are created with
-- the voucher, so their number plus one is the number of buckets. A voucher that is not
-- split has no row.
CREATE TABLE admission_seqs (
    voucher_id INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) WITHOUT ROWID;
