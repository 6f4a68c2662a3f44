-- The stock goes back to the voucher's row. It is computed and not added, so that this can be repeated.
UPDATE vouchers SET stock = initial_stock -
    (SELECT COUNT(*) FROM orders WHERE orders.voucher_id = vouchers.id AND orders.status IN ('confirmed', 'unpaid', 'paid', 'pending'))
    WHERE id IN (SELECT voucher_id FROM stock_parts);
DROP TABLE stock_parts;
