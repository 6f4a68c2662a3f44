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
	}
}
