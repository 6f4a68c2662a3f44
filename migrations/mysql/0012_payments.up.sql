-- Each statement of this file can be repeated, so it may stop half way.

-- What is to be paid for an order, and until when. An order that asks for no payment has
-- no row, so the orders of other vouchers cost nothing more.
--
-- unpaid mirrors the order's status 'unpaid' and is changed in the same transaction: the
-- index on it and pay_by finds the orders that are due, however many are not.
CREATE TABLE IF NOT EXISTS order_payments (
    order_id     BIGINT       NOT NULL PRIMARY KEY,
    -- the bucket of the flow admission whose stock the order took
    bucket       INT          NOT NULL,
    amount_cents BIGINT       NOT NULL,
    pay_by       DATETIME(6)  NOT NULL,
    unpaid       BOOLEAN      NOT NULL,
    -- when the order entered each state
    unpaid_at    DATETIME(6)  NOT NULL,
    paid_at      DATETIME(6)  NULL,
    cancelled_at DATETIME(6)  NULL,
    expired_at   DATETIME(6)  NULL,
    refunding_at DATETIME(6)  NULL,
    refunded_at  DATETIME(6)  NULL,
    -- the provider's id of the payment and its page; NULL until the buyer asks for them
    payment_id   VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
    pay_url      VARCHAR(500) NULL,
    KEY order_payments_due (unpaid, pay_by)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Money that was received, one row for each payment of the provider: a second message
-- about the same payment finds the row and changes nothing. outcome says what became of
-- the money. The rows with refund_due are what is still to be refunded; money of an unknown
-- order stays here as 'unmatched'.
CREATE TABLE IF NOT EXISTS payments (
    payment_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    order_id     BIGINT      NOT NULL,
    amount_cents BIGINT      NOT NULL,
    received_at  DATETIME(6) NOT NULL,
    outcome      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    refund_due   BOOLEAN     NOT NULL,
    refunded_at  DATETIME(6) NULL,
    KEY payments_by_order (order_id),
    KEY payments_to_refund (refund_due, payment_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- How many orders of a bucket have given their units back within an epoch. Redis has the
-- same total of what has arrived there; see the package ledger. A row for each bucket of a
-- voucher that asks for payment is created with the voucher.
CREATE TABLE IF NOT EXISTS admission_returns (
    voucher_id BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    epoch      BIGINT NOT NULL,
    total      BIGINT NOT NULL,
    PRIMARY KEY (voucher_id, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Orders that have given their units back in the database, and not yet in Redis. The epoch
-- is the voucher's at that moment; once it is over, there is nothing left to do.
CREATE TABLE IF NOT EXISTS returned_orders (
    order_id   BIGINT NOT NULL PRIMARY KEY,
    voucher_id BIGINT NOT NULL,
    user_id    BIGINT NOT NULL,
    bucket     INT    NOT NULL,
    epoch      BIGINT NOT NULL,
    key_hash   BIGINT NULL,
    KEY returned_orders_by_bucket (voucher_id, bucket, epoch)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
