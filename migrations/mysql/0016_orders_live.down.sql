ALTER TABLE orders DROP INDEX orders_live;
