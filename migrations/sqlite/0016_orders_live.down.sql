DROP INDEX orders_live;
