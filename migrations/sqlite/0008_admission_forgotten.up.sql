-- Vouchers whose data was removed from Redis. A voucher is forgotten while
-- admission_forgotten equals admission_epoch: that epoch is closed, every order is
-- persisted, and only this database knows them. admission_cleared says that Redis has no
-- key of the voucher any more; the index finds the vouchers of which it may have keys.
ALTER TABLE vouchers ADD COLUMN admission_forgotten INTEGER NOT NULL DEFAULT 0;
ALTER TABLE vouchers ADD COLUMN admission_cleared BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX admission_uncleared ON vouchers (admission_cleared, end_at);
