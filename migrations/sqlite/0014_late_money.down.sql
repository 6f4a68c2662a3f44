-- A program before this migration decides about late money at once: under the flow admission it
-- goes back.
UPDATE payments SET outcome = 'no_stock', refund_due = TRUE WHERE outcome = 'late';
DROP INDEX payments_by_outcome;
