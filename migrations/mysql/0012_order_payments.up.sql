-- What is to be paid for an order, and until when. An order that asks for no payment has
-- no row, so the orders of other vouchers cost nothing more.
--
-- unpaid mirrors the order's status 'unpaid' and is changed in the same transaction: the
-- index on it and pay_by finds the orders that are due, however many are not.
CREATE TABLE order_payments (
    order_id     BIGINT       NOT NULL PRIMARY KEY,
    -- the bucket of the flow admission whose stock the order took
    bucket       INT          NOT NULL,
    amount_cents BIGINT       NOT NULL,
    pay_by       DATETIME(6)  NOT NULL,
    unpaid       BOOLEAN      NOT NULL,
    paid_at      DATETIME(6)  NULL,
    -- the provider's id of the payment and its page; NULL until the buyer asks for them
    payment_id   VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
    pay_url      VARCHAR(500) NULL,
    KEY order_payments_due (unpaid, pay_by)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
