-- A program before this migration decides about late money at once: under the flow admission it
-- goes back. The statement can be repeated.
UPDATE payments SET outcome = 'no_stock', refund_due = TRUE WHERE outcome = 'late';
ALTER TABLE payments DROP INDEX payments_by_outcome;
