-- What is to be paid for an order, and until when. An order that asks for no payment has
-- no row, so the orders of other vouchers cost nothing more.
--
-- unpaid mirrors the order's status 'unpaid' and is changed in the same transaction: the
-- index on it and pay_by finds the orders that are due, however many are not.
CREATE TABLE order_payments (
    order_id     INTEGER  NOT NULL PRIMARY KEY,
    -- the bucket of the flow admission whose stock the order took
    bucket       INTEGER  NOT NULL,
    amount_cents INTEGER  NOT NULL,
    pay_by       DATETIME NOT NULL,
    unpaid       BOOLEAN  NOT NULL,
    paid_at      DATETIME NULL,
    -- the provider's id of the payment and its page; NULL until the buyer asks for them
    payment_id   TEXT     NULL,
    pay_url      TEXT     NULL
);

CREATE INDEX order_payments_due ON order_payments (unpaid, pay_by);
