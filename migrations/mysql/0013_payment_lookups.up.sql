-- When the provider is to be asked about a payment, since its own message may be lost. NULL
-- while there is no payment, and from when its outcome is known.
ALTER TABLE order_payments
    ADD COLUMN look_at DATETIME(6) NULL,
    ADD INDEX order_payments_lookups (look_at);
