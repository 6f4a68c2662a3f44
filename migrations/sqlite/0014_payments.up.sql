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
