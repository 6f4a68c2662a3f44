-- How many orders of a bucket have given their vouchers back within an epoch. Redis has the
-- same total of what has arrived there; see the package ledger. A row for each bucket of a
-- voucher that asks for payment is created with the voucher.
CREATE TABLE admission_returns (
    voucher_id INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    total      INTEGER NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) WITHOUT ROWID;
