package main

// inStock lists faults of taking from a stock that is not in one row.
func inStock() []mutant {
	const database = "./internal/database"
	return []mutant{
		{"an empty part of the stock is taken for all of it", "internal/database/parts.go",
			"		return t.takeAnywhere(ctx, voucherID)\n", "		return voucher.ErrSoldOut\n", database},
		{"stock that came back is not found beside the parts", "internal/database/parts.go",
			"UNION ALL\n		SELECT part", "AND stock < 0 UNION ALL\n		SELECT part", database},
		{"a unit is taken without an order", "internal/database/write.go",
			"	if found[0] != 1 {\n		t.pending = others", "	if found[0] != 1 {\n		t.ended = true", database},
		{"what is left in the parts is not counted", "internal/database/orders.go",
			"v.initial_stock, v.stock + ` + inParts + `,", "v.initial_stock, v.stock,", database},
		{"an order that a group has left out takes a unit", "internal/database/grouped.go",
			"		if n != int64(len(all)) {", "		if n > int64(len(all)) {", database},
		{"a group takes more units than are left", "internal/database/grouped.go",
			"	if found[len(found)-1] != 1 {\n		return errTooFew", "	if found[len(found)-1] > 1 {\n		return errTooFew", database},
		{"what is left is not sold, as it is less than a group", "internal/database/grouped.go",
			"	case stock == 0:\n		return 0, voucher.ErrSoldOut", "	case stock < int64(len(all)):\n		return 0, voucher.ErrSoldOut", database},
		{"a user's second order in a group shares the first one's fate", "internal/database/grouped.go",
			"later = append(later, r)", "r.Answer(nil)", database},
		{"one order's fault is that of its group", "internal/database/grouped.go",
			"err == nil && len(all) == n {\n				first = n / 2", "err == nil && len(all) < n {\n				err = order.ErrAlreadyOrdered", database},
		{"a group sells what was changed meanwhile", "internal/database/grouped.go",
			"			t.AtRevision(all[0].revision)\n", "", database},
		{"a group is not told which voucher it sells", "internal/order/locked.go",
			"p.store.PlaceGrouped(ctx, p.order, p.voucher.Revision)", "p.store.PlaceGrouped(ctx, p.order, 0)", "./internal/order"},
		{"a panic in a group ends the process", "internal/database/grouped.go", "cause := recover()", "cause := any(nil)", database},
	}
}
