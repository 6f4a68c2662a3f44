ALTER TABLE orders DROP COLUMN key_hash;
