-- The vouchers by the window of their sale, for lists of those that are open, to come or over.
ALTER TABLE vouchers
    ADD INDEX vouchers_by_begin (begin_at, id),
    ADD INDEX vouchers_by_end (end_at, begin_at);
