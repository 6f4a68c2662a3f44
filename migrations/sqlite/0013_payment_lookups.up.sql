-- When the provider is to be asked about a payment, since its own message may be lost. NULL
-- while there is no payment, and from when its outcome is known.
ALTER TABLE order_payments ADD COLUMN look_at DATETIME NULL;
CREATE INDEX order_payments_lookups ON order_payments (look_at);
