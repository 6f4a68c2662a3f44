-- One order per voucher and user, if the policy says so: the unique index ignores
-- NULL, so an order that need not be unique has no unique_user_id.
--
-- No foreign key to vouchers, on purpose. It would make every INSERT take a
-- shared lock on the voucher's row before the UPDATE of that same row asks for an
-- exclusive one: two concurrent orders would deadlock. Vouchers are never deleted.
CREATE TABLE orders (
    id             BIGINT      NOT NULL PRIMARY KEY,
    voucher_id     BIGINT      NOT NULL,
    user_id        BIGINT      NOT NULL,
    unique_user_id BIGINT      NULL,
    status         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at     DATETIME(6) NOT NULL,
    UNIQUE KEY orders_one_per_user (voucher_id, unique_user_id),
    KEY orders_by_user (user_id, voucher_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
