ALTER TABLE order_payments DROP INDEX order_payments_lookups, DROP COLUMN look_at;
