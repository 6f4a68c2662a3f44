-- Orders that have given their vouchers back in the database, and not yet in Redis. The epoch
-- is the voucher's at that moment; once it is over, there is nothing left to do.
CREATE TABLE returned_orders (
    order_id   INTEGER NOT NULL PRIMARY KEY,
    voucher_id INTEGER NOT NULL,
    user_id    INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    key_hash   INTEGER NULL
);

CREATE INDEX returned_orders_by_bucket ON returned_orders (voucher_id, bucket, epoch);
