UPDATE orders SET status = CASE WHEN status IN ('unpaid', 'paid') THEN 'confirmed' ELSE 'rejected' END
    WHERE status IN ('unpaid', 'paid', 'cancelled', 'expired', 'refunding', 'refunded');
