ALTER TABLE stock_parts DROP COLUMN revision;
DROP TABLE voucher_changes;
ALTER TABLE vouchers DROP COLUMN revision, DROP COLUMN paused;
