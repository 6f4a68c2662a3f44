-- The way back: to a program that knows no payment, an order that has a voucher is confirmed,
-- and one that has given its voucher back is rejected. Both keep the stock equation. The
-- states themselves are not in the schema, so the way forward does nothing.
SELECT 1;
