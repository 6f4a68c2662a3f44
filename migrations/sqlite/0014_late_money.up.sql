-- Finds the money with the outcome 'late', which waits for a decision, and the unmatched money.
CREATE INDEX payments_by_outcome ON payments (outcome, payment_id);
