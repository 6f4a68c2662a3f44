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
    -- when the order entered each state
    unpaid_at    DATETIME NOT NULL,
    paid_at      DATETIME NULL,
    cancelled_at DATETIME NULL,
    expired_at   DATETIME NULL,
    refunding_at DATETIME NULL,
    refunded_at  DATETIME NULL,
    -- the provider's id of the payment and its page; NULL until the buyer asks for them
    payment_id   TEXT     NULL,
    pay_url      TEXT     NULL
);

CREATE INDEX order_payments_due ON order_payments (unpaid, pay_by);

-- Money that was received, one row for each payment of the provider: a second message
-- about the same payment finds the row and changes nothing. outcome says what became of
-- the money. The rows with refund_due are what is still to be refunded; money of an unknown
-- order stays here as 'unmatched'.
CREATE TABLE payments (
    payment_id   TEXT     NOT NULL PRIMARY KEY,
    order_id     INTEGER  NOT NULL,
    amount_cents INTEGER  NOT NULL,
    received_at  DATETIME NOT NULL,
    outcome      TEXT     NOT NULL,
    refund_due   BOOLEAN  NOT NULL,
    refunded_at  DATETIME NULL
);

CREATE INDEX payments_by_order ON payments (order_id);
CREATE INDEX payments_to_refund ON payments (refund_due, payment_id);

-- How many orders of a bucket have given their units back within an epoch. Redis has the
-- same total of what has arrived there; see the package ledger. A row for each bucket of a
-- voucher that asks for payment is created with the voucher.
CREATE TABLE admission_returns (
    voucher_id INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    total      INTEGER NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) WITHOUT ROWID;

-- Orders that have given their units back in the database, and not yet in Redis. The epoch
-- is the voucher's at that moment; once it is over, there is nothing left to do.
CREATE TABLE returned_orders (
    order_id   INTEGER NOT NULL PRIMARY KEY,
    voucher_id INTEGER NOT NULL,
    user_id    INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    key_hash   INTEGER NULL
);

CREATE INDEX returned_orders_by_bucket ON returned_orders (voucher_id, bucket, epoch);
