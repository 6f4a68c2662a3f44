-- To a program that knows no payment, an order that has a unit is confirmed, and one that
-- has given its unit back is rejected. Both keep the stock equation. The first statement
-- can be repeated.
UPDATE orders SET status = CASE WHEN status IN ('unpaid', 'paid') THEN 'confirmed' ELSE 'rejected' END
    WHERE status IN ('unpaid', 'paid', 'cancelled', 'expired', 'refunding', 'refunded');
ALTER TABLE vouchers DROP COLUMN pay_within_s;
