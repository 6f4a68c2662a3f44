-- The history of the orders that ask for payment. No order enters a state twice, so the
-- primary key is also what refuses a second transition into the same state.
CREATE TABLE order_events (
    order_id INTEGER  NOT NULL,
    status   TEXT     NOT NULL,
    at       DATETIME NOT NULL,
    PRIMARY KEY (order_id, status)
) WITHOUT ROWID;
