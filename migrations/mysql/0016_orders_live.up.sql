-- What Redis must know of a voucher's orders, in the order of the users: a voucher is closed while it is read. Without the
-- hash of the key, which the unique index cannot have, each order was one more read of the table at another place.
ALTER TABLE orders ADD INDEX orders_live (voucher_id, unique_user_id, key_hash);
