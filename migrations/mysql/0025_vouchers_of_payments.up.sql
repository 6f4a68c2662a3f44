-- The vouchers of the payments of before. The statements can be repeated. On Vitess the tables are empty when they get the
-- columns, and its gate changes no column that decides on the shard.
SET @fill = IF(@@version LIKE '%-Vitess', 'SELECT 1',
    'UPDATE order_payments p JOIN orders o ON o.id = p.order_id SET p.voucher_id = o.voucher_id WHERE p.voucher_id = 0');
PREPARE fill FROM @fill;
EXECUTE fill;
SET @fill = IF(@@version LIKE '%-Vitess', 'SELECT 1',
    'UPDATE payments p JOIN orders o ON o.id = p.order_id SET p.voucher_id = o.voucher_id WHERE p.voucher_id = 0');
PREPARE fill FROM @fill;
EXECUTE fill;
DEALLOCATE PREPARE fill;
