-- What a client was answered to a key of its own choice. Keys are bytes: "a" and
-- "A" are two. Without a status the request is still being carried out.
CREATE TABLE idempotency_keys (
    user_id      BIGINT         NOT NULL,
    idem_key     VARBINARY(128) NOT NULL,
    fingerprint  BINARY(32)     NOT NULL,
    resource_id  BIGINT         NOT NULL,
    -- how often the request was begun; who takes over compares and sets it
    attempt      INT            NOT NULL,
    started_at   DATETIME(6)    NOT NULL,
    status       SMALLINT       NULL,
    content_type TEXT           NULL,
    location     TEXT           NULL,
    body         MEDIUMBLOB     NULL,
    PRIMARY KEY (user_id, idem_key),
    KEY idempotency_keys_by_start (started_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
