-- The answers to requests with an idempotency key. Keys are bytes: "a" and "A" differ.
-- Without a status the request is still being carried out.
CREATE TABLE idempotency_keys (
    user_id      BIGINT         NOT NULL,
    idem_key     VARBINARY(128) NOT NULL,
    fingerprint  BINARY(32)     NOT NULL,
    resource_id  BIGINT         NOT NULL,
    -- the number of attempts; a takeover is a compare-and-set on it
    attempt      INT            NOT NULL,
    started_at   DATETIME(6)    NOT NULL,
    status       SMALLINT       NULL,
    content_type TEXT           NULL,
    location     TEXT           NULL,
    body         MEDIUMBLOB     NULL,
    PRIMARY KEY (user_id, idem_key),
    KEY idempotency_keys_by_start (started_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
