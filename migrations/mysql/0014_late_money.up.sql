-- Finds the money with the outcome 'late', which waits for a decision, and the unmatched money.
ALTER TABLE payments ADD INDEX payments_by_outcome (outcome, payment_id);
