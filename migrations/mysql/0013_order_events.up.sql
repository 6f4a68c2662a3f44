-- The history of the orders that ask for payment. No order enters a state twice, so the
-- primary key is also what refuses a second transition into the same state.
CREATE TABLE order_events (
    order_id BIGINT      NOT NULL,
    status   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at       DATETIME(6) NOT NULL,
    PRIMARY KEY (order_id, status)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
