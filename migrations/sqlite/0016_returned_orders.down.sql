DROP TABLE returned_orders;
