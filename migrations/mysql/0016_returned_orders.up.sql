-- Orders that have given their vouchers back in the database, and not yet in Redis. The epoch
-- is the voucher's at that moment; once it is over, there is nothing left to do.
CREATE TABLE returned_orders (
    order_id   BIGINT NOT NULL PRIMARY KEY,
    voucher_id BIGINT NOT NULL,
    user_id    BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    epoch      BIGINT NOT NULL,
    key_hash   BIGINT NULL,
    KEY returned_orders_by_bucket (voucher_id, bucket, epoch)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
