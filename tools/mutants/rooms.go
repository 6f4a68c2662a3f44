package main

// inRooms lists faults of the waiting rooms.
func inRooms() []mutant {
	const (
		room    = "./internal/room"
		service = "./internal/service"
		ledger  = "internal/room/ledger/"
	)
	return []mutant{
		{"a number is told twice after a failover", ledger + "ticket.lua", "local tickets = math.max(tonumber(has[2]), tonumber(ARGV[4]))", "local tickets = tonumber(has[2])", room},
		{"a number is told that the database has not reserved", ledger + "ticket.lua", "if tickets >= reserved then", "if tickets >= reserved + 100000 then", room},
		{"a user gets another ticket each time", ledger + "ticket.lua", "  if not passed then\n", "  if false then\n", room},
		{"positions are told before the draw is certain", "internal/room/local_room.go", "		if err == nil {\n			l.drawn(n)\n		}", "		l.drawn(max(n, seen.Drawn))", room},
		{"who was called is called no more", ledger + "advance.lua", "local serving = math.max(tonumber(has.serving), tonumber(ARGV[6]))", "local serving = tonumber(has.serving)", room},
		{"visitors are called while the sale is paused", ledger + "advance.lua", "if ARGV[2] == '1' and settled", "if settled", room},
		{"visitors who left hold the room up", ledger + "advance.lua", "local pace = rate / share", "local pace = rate", room},
		{"a jump of the clock is a burst", ledger + "claim.lua", "math.min(1000, now - tonumber(has[6]))) -- whatever the clock does", "now - tonumber(has[6])) * 1000", room},
		{"passes are issued beyond the rate", ledger + "claim.lua", "elseif tokens < 1 then", "elseif tokens < -1000 then", room},
		{"passes are issued beyond the stock", ledger + "claim.lua", ">= tonumber(ARGV[5]) then", ">= 10 * tonumber(ARGV[5]) then", room},
		{"the stock of another state of Redis counts", ledger + "claim.lua", "if has[1] ~= ARGV[7] then", "if ARGV[7] == '' then", room},
		{"a pass that lapsed holds its unit", ledger + "advance.lua", "      lapsed = lapsed + n\n", "", room},
		{"a pass is used twice", ledger + "spend.lua", "  elseif mark ~= '' then\n    return {4, now}\n", "", room},
		{"a pass is used after it has lapsed", ledger + "spend.lua", "  elseif now >= tonumber(untilMS) then\n", "  elseif false then\n", room},
		{"a user whom Redis has forgotten gets a second pass", ledger + "claim.lua", "if not visit or mark == 'v' or seq ~= number then\n  if ARGV[8] == '' then", "if not visit or mark == 'v' or seq ~= number then\n  if false then", room},
		{"a ticket is not signed for its voucher", "internal/room/ticket.go", "!hmac.Equal(all[size:], s.mac(all[:size]))", "len(all) != size+macSize", room},
		{"a pass is good for every user", "internal/room/pass.go", "case p.User != userID:", "case p.User == 0:", room},
		{"a ticket is good for every user", "internal/room/local_room.go", "	if !ok || t.User != user {", "	if !ok {", room},
		{"a number on a ticket that Redis has forgotten is told again", "internal/room/local_room.go", "	raise(&l.known.tickets, t.Number+1)\n", "", room},
		{"an instance reads the stock of a room no more that it keeps", "internal/room/local_room.go", "		calling, cancel := context.WithTimeout(ctx, callTimeout)\n		l.store(", "		if _, there := l.stillThere(ctx); !there {\n			return\n		}\n		calling, cancel := context.WithTimeout(ctx, callTimeout)\n		l.store(", room},
		{"polls have the database asked", "internal/room/local_room.go", "if time.Since(last) < kickEvery {", "if time.Since(last) < 0 {", room},
		{"Redis keeps a visit by the clock of an instance", "internal/room/local_room.go", "time.Duration(max(0, v.EndAt.UnixMilli()-l.clock()))*time.Millisecond", "max(0, time.Until(v.EndAt))", room},
		{"visitors are called before the sale", ledger + "advance.lua", "settled and now >= begin and elapsed", "settled and elapsed", room},
		{"a pass that a repetition has freed is not spent", ledger + "spend.lua", "if verb == 'spent' and mark ~= 's' then", "if verb == 'spent' and mark == request then", room},
		{"an order needs no pass", "internal/order/service.go", "	if v.Policy.Room != nil {\n		return s.placeWithPass", "	if v.Policy.Room != nil && req.Pass != \"\" {\n		return s.placeWithPass", service},
		{"a spent pass hides the order from its repetition", "internal/order/pass.go", "	return s.placedEarlier(ctx, v, req, refused)\n", "	return Order{}, refused\n", service},
		{"a page that nobody sees claims a pass", "internal/web/static/room.js", "if (!document.hidden || had?.pass)", "if (had !== 0)", "./test/pages"},
		{"a page that was loaded again has lost its place in the queue", "internal/web/static/room.js", "      browser.set(this.name, `${this.ticket} ${this.commitment}`);\n", "", "./test/pages"},
	}
}
