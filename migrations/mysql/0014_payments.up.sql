-- Money that was received, one row for each payment of the provider: a second message
-- about the same payment finds the row and changes nothing. outcome says what became of
-- the money. The rows with refund_due are what is still to be refunded; money of an unknown
-- order stays here as 'unmatched'.
CREATE TABLE payments (
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
