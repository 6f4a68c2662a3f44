DROP TABLE IF EXISTS returned_orders;
DROP TABLE IF EXISTS admission_returns;
DROP TABLE IF EXISTS payments;
DROP TABLE IF EXISTS order_payments;
