-- The vouchers of the payments of before.
UPDATE order_payments SET voucher_id = COALESCE((SELECT o.voucher_id FROM orders o WHERE o.id = order_payments.order_id), 0);
UPDATE payments SET voucher_id = COALESCE((SELECT o.voucher_id FROM orders o WHERE o.id = payments.order_id), 0);
