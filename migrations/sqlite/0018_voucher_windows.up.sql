-- The vouchers by the window of their sale, for lists of those that are open, to come or over.
CREATE INDEX vouchers_by_begin ON vouchers (begin_at, id);
CREATE INDEX vouchers_by_end ON vouchers (end_at, begin_at);
