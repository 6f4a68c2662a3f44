-- What Redis must know of a voucher's orders, in the order of the users: a voucher is closed while it is read.
CREATE INDEX orders_live ON orders (voucher_id, unique_user_id, key_hash);
