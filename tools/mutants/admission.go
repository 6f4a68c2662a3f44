package main

// inAdmission lists faults of the gate and of its scripts.
func inAdmission() []mutant {
	const (
		admission = "./internal/admission"
		ledger    = "internal/admission/ledger/"
	)
	return []mutant{
		{"the workers are not told of an order", "internal/admission/decide.go", "	b.wakeWorkers(asked)\n", "", admission},
		{"vouchers that nobody buys are all checked", "internal/admission/gate.go", "n := min(len(idle), idleChecks)", "n := len(idle)", admission},
		{"one voucher that is behind says nothing about others", "internal/admission/gate.go", "		g.checkEach(ctx, idle[n:])", "		g.checkEach(ctx, nil)", admission},
		{"a look-up does not hear that a bucket has changed", ledger + "tracking.go",
			"			c.changed[strings.TrimSuffix(name, ordersSuffix)] = true", "			_ = strings.TrimSuffix(name, ordersSuffix)", admission},
		{"a look-up reads all buckets each time", ledger + "tracking.go", "			n.empty[meta] = b.Epoch", "			_ = meta", admission},
		{"an order of any epoch is accepted", ledger + "admit.lua", "if known[1] ~= epoch or not known[3] then", "if not known[3] then", admission},
		{"a user is reserved before the order is in the stream", ledger + "admit.lua",
			"  redis.call('HSET', voucher, 'busy', 1)\n", "  redis.call('HSET', users, unpack(accepted))\n", admission},
		{"one unit more is sold than there are", ledger + "admit.lua", "elseif stock <= 0 then", "elseif stock < 0 then", admission},
		{"a user gets two", ledger + "admit.lua", "local has = held[i] or taken[user]", "local has = taken[user]", admission},
		{"a sale by admission still sells at its end", ledger + "admit.lua",
			"elseif now >= tonumber(known[6]) then", "elseif now > tonumber(known[6]) then", admission},
		{"units come back with each repetition", ledger + "return.lua", "'ret', ret,", "'ret', known[4] or 0,", admission},
		{"a transfer that is repeated arrives twice", ledger + "take.lua", "tonumber(ARGV[3]) - tonumber(known[4] or 0)", "tonumber(ARGV[3])", admission},
		{"a dead letter is written at each attempt", ledger + "dead_letter.lua", "moved = moved or", "moved = false and", admission},
		{"a voucher is forgotten with orders that are on their way", ledger + "remove.lua",
			"if redis.call('XLEN', KEYS[3]) > 0 then", "if false then", admission},
		{"an older epoch closes a newer one", ledger + "close.lua", "if epoch > tonumber(ARGV[1]) and", "if epoch < tonumber(ARGV[1]) and", admission},
		{"a later epoch of Redis is ignored", "internal/admission/rebuild.go", "if err != nil || redis == st.Epoch {", "if err != nil || redis >= st.Epoch {", admission},
		{"a gate sells although its stores do not belong together", "internal/admission/gate.go",
			"func (g *Gate) admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {\n	if err := g.config.paired(); err != nil {",
			"func (g *Gate) admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {\n	if err := g.config.paired(); err != nil && false {", admission},
		{"a voucher is rebuilt in a Redis that nobody has asked", "internal/admission/lifecycle.go", "if err := v.config.Confirm(ctx); err != nil {", "if err := v.config.paired(); err != nil {", admission},
		{"a voucher of an earlier pair counts as open", "internal/admission/lifecycle.go", " || now.Generation < generation {", " {", admission},
		{"a bucket of a later pair is closed", ledger + "close.lua", "if tonumber(known[2] or 0) > tonumber(ARGV[2]) then", "if false then", admission},
		{"entries of another database's bucket are taken", ledger + "acknowledge.lua", "if tonumber(bucket[1] or 0) > tonumber(ARGV[5]) then", "if false then", admission},
		{"an empty Redis fits any database", "internal/pairing/pairing.go", "db.paired() && redis.paired() && db.Generation", "db.paired() && db.Generation", "./internal/pairing"},
		{"another Redis is taken although somebody uses the former one", "internal/pairing/pairing.go", "now != p.seen {\n		p.seen, p.since = now, time.Now()\n	}\n	own", "p.since.IsZero() {\n		p.seen, p.since = now, time.Now()\n	}\n	own", "./internal/pairing"},
		{"another Redis is taken after a kill", "internal/pairing/pairing.go", "case !own && !p.known(db, redis):", "case false:", "./internal/pairing"},
		{"a young copy of a store joins the pair", "internal/pairing/pairing.go", "if !p.joined && !p.mayJoin(db, began) {", "if !p.joined && !p.mayJoin(db, began) && false {", "./internal/pairing"},
		{"a voucher opens before all its users are loaded", ledger + "open.lua",
			"if known[1] ~= ARGV[2] or tonumber(known[4] or 0) > tonumber(ARGV[10]) or redis.call('HLEN', fresh) ~= tonumber(ARGV[7]) then", "if known[1] ~= ARGV[2] or tonumber(known[4] or 0) > tonumber(ARGV[10]) then", admission},
		{"a voucher is forgotten before its orders are persisted", "internal/admission/forget.go",
			"if all[i].Now < due || all[i].Pending > 0 {", "if all[i].Now < due {", admission},
		{"a closed bucket counts as open", "internal/admission/node.go", "return redis > 0 && redis%2 == 0 && (", "return redis > 0 && (", admission},
		{"a sequence number that no language can hold is taken", ledger + "entry.go",
			"if common.Epoch > MaxNumber || common.Seq > MaxNumber {", "if common.Epoch > MaxNumber {", admission},
		{"an error out of a running script is taken for a refusal", "internal/redisscript/redisscript.go",
			`!strings.Contains(err.Error(), "script")`, `err.Error() != ""`, "./internal/redisscript ./internal/admission"},
	}
}
