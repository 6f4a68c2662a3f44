-- See migrations/mysql.
CREATE TABLE rooms (
    voucher_id INTEGER NOT NULL PRIMARY KEY,
    secret     BLOB    NOT NULL,
    drawn      INTEGER NULL,
    reserved   INTEGER NOT NULL DEFAULT 0,
    serving    INTEGER NOT NULL DEFAULT 0
);
