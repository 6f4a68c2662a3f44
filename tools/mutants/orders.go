package main

// inOrders lists faults of a voucher and of placing an order.
func inOrders() []mutant {
	const (
		voucher = "./internal/voucher"
		order   = "./internal/order"
		stores  = "./internal/lab/explore/stores" // every order of what several orders do
	)
	return []mutant{
		{"a sale still sells at its end", "internal/voucher/voucher.go",
			"case !now.Before(v.EndAt):", "case now.After(v.EndAt):", voucher},
		{"a title may be made of fillers", "internal/voucher/title.go", "!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)", "r != 0", voucher},
		{"a title may override the direction of writing", "internal/voucher/title.go", "r >= 0x202a && r <= 0x202e", "r >= 0x202a && r < 0x202e", voucher},
		{"look-ups of unknown ids leave the database no pause", "internal/voucher/lookups.go",
			"lookupPause = 5 * time.Millisecond", "lookupPause = time.Millisecond", voucher},
		{"an unsafe policy sells outside lab mode", "internal/order/service.go",
			"	if !s.lab {\n		return v.Policy.Safe()\n	}\n", "", order},
		{"a sold out voucher is asked for under the lock", "internal/order/service.go",
			"	if v.Stock <= 0 {\n		return voucher.ErrSoldOut\n	}\n", "", order},
		{"the last unit but none is sold under the lock", "internal/order/locked.go", "if stock <= 0 {", "if stock < 0 {", order},
		{"an epoch that was never opened counts as open", "internal/admission/contract/contract.go",
			"return s.Epoch > 0 && s.Epoch%2 == 0", "return s.Epoch%2 == 0", "./internal/admission/contract"},
		{"a resumed request is answered with another's order", "internal/order/service.go",
			"case err == nil && req.matches(placed):", "case err == nil:", order},
		{"a repetition does not look for the order that its first attempt committed", "internal/order/service.go",
			"o.ID, req.Resumed || repeated, err)", "o.ID, req.Resumed && repeated, err)", order},
		{"a repetition under a key costs its user nothing", "internal/order/admission.go",
			"if req.Key != 0 && req.MayLook != nil {", "if req.Key != 0 && false {", order},
		{"a user without an order is told of one", "internal/order/service.go",
			"	case !ordered:\n", "	case !ordered && false:\n", order},
		{"a lock around the transaction is released before the commit", "internal/order/locked.go",
			"case v.Policy.Placement == voucher.InsideTx:", "case v.Policy.Placement != \"\":", stores},
		{"an order that no index makes unique is not looked for", "internal/order/locked.go",
			"	if p.voucher.Policy.Unique {\n		return nil", "	if true {\n		return nil", stores},
		{"the version is not compared", "internal/database/tx.go",
			"AND version = ? AND stock > 0`", "AND ? >= 0 AND stock > 0`", stores},
		{"the unique index has no user", "internal/database/tx.go",
			"	if unique && o.Status != order.Rejected {", "	if unique && o.Status == order.Rejected {", stores},
		{"an order is admitted under an epoch that is over", "internal/admission/ledger/admit.lua",
			"if known[1] ~= epoch or not known[3] then", "if not known[3] then", stores},
		{"a return that is repeated adds its units again", "internal/admission/ledger/return.lua",
			"local added = math.max(0, tonumber(ARGV[2]) - tonumber(known[4] or 0))", "local added = tonumber(ARGV[2])", stores},
		{"a transfer is taken as a whole each time", "internal/admission/ledger/take.lua",
			"local taken = tonumber(ARGV[3]) - tonumber(known[4] or 0)", "local taken = tonumber(ARGV[3])", stores},
		{"a close that arrives late closes the next epoch", "internal/admission/ledger/close.lua",
			"if epoch > tonumber(ARGV[1]) and", "if false and", stores},
		{"an order moves on from a state that it is in no more", "internal/database/lifecycle.go",
			"if found != int64(len(orders)) {", "if false {", stores},
	}
}
