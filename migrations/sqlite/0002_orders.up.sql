-- One order per voucher and user, if the policy says so: the unique
-- constraint ignores NULL, so an order that need not be unique has no
-- unique_user_id. As in MySQL's schema there is no foreign key.
CREATE TABLE orders (
    id             INTEGER  NOT NULL PRIMARY KEY,
    voucher_id     INTEGER  NOT NULL,
    user_id        INTEGER  NOT NULL,
    unique_user_id INTEGER  NULL,
    status         TEXT     NOT NULL,
    created_at     DATETIME NOT NULL,
    UNIQUE (voucher_id, unique_user_id)
);

CREATE INDEX orders_by_user ON orders (user_id, voucher_id);
