-- The waiting rooms. secret is what tickets and passes are signed with, and from which the seed of the draw is made. drawn
-- is how many tickets the draw has put in order; NULL until then. reserved is how many ticket numbers may have been told
-- to visitors, and serving up to which position they have been called, a second ago.
CREATE TABLE rooms (
    voucher_id BIGINT     NOT NULL PRIMARY KEY,
    secret     BINARY(32) NOT NULL,
    drawn      BIGINT     NULL,
    reserved   BIGINT     NOT NULL DEFAULT 0,
    serving    BIGINT     NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
