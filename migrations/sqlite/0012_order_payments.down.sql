DROP TABLE order_payments;
