-- The answers to requests with an idempotency key. Keys are bytes: "a" and "A" differ.
-- Without a status the request is still being carried out.
CREATE TABLE idempotency_keys (
    user_id      INTEGER  NOT NULL,
    idem_key     BLOB     NOT NULL,
    fingerprint  BLOB     NOT NULL,
    resource_id  INTEGER  NOT NULL,
    -- the number of attempts; a takeover is a compare-and-set on it
    attempt      INTEGER  NOT NULL,
    started_at   DATETIME NOT NULL,
    status       INTEGER  NULL,
    content_type TEXT     NULL,
    location     TEXT     NULL,
    body         BLOB     NULL,
    PRIMARY KEY (user_id, idem_key)
);

CREATE INDEX idempotency_keys_by_start ON idempotency_keys (started_at);
