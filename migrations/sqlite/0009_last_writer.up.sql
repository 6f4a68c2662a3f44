-- A random number of the transaction that last took from the stock. A statement that
-- finds its own transaction's number here knows that the transaction was not rolled back
-- in between: a rollback removes the number.
ALTER TABLE vouchers ADD COLUMN last_writer INTEGER NOT NULL DEFAULT 0;
