DROP INDEX order_payments_lookups;
ALTER TABLE order_payments DROP COLUMN look_at;
