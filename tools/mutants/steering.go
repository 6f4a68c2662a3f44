package main

// inSteering lists faults of changing a voucher while it sells, and of the lists of vouchers.
func inSteering() []mutant {
	const (
		admission = "./internal/admission"
		database  = "./internal/database"
		httpapi   = "./internal/httpapi"
		pages     = "./test/pages"
		static    = "internal/web/static/"
	)
	return []mutant{
		{"an order is sold by what an administrator has changed", "internal/database/tx.go",
			`last_writer = ? WHERE id = ? AND revision " + t.expected() + " AND stock > 0"`, `last_writer = ? WHERE id = ? AND (TRUE OR revision " + t.expected() + ") AND stock > 0"`, database},
		{"units are taken away while orders are pending", "internal/database/changes.go",
			"if change.AddStock < 0 && !row.drainedBy(drained) {", "if change.AddStock < 0 && !row.drainedBy(row.AdmissionEpoch|1) {", database},
		{"sold units are taken away", "internal/voucher/change.go", "case -n > v.Stock:", "case -n > v.InitialStock:", database + " " + httpapi},
		{"a voucher is deleted although it has orders", "internal/database/changes.go",
			"		case err == nil:\n			return voucher.ErrHasOrders\n", "", database},
		{"the parts of the stock keep an old revision", "internal/database/parts.go",
			"SET revision = ? WHERE voucher_id = ?\", args: []any{v.Revision, v.ID}", "SET revision = ? WHERE voucher_id = ?\", args: []any{v.Revision - 1, v.ID}", database},
		{"a paused sale sells by admission", "internal/admission/ledger/admit.lua", "elseif known[9] == '1' then", "elseif known[9] == '2' then", admission},
		{"a late change undoes a newer one", "internal/admission/ledger/window.lua", "if tonumber(known[2] or 0) < tonumber(ARGV[1]) then", "if true then", admission},
		{"a voucher opens with what was read before a change", "internal/admission/ledger/open.lua", " or tonumber(known[4] or 0) > tonumber(ARGV[10])", "", admission},
		{"a pause that Redis was not told of is never found", "internal/admission/states.go", " || now.Paused != want.Paused", "", admission},
		{"a change is taken without If-Match", "internal/httpapi/changes.go", `	case given == "":`, `	case given == "never":`, httpapi},
		{"a change for another revision is made", "internal/voucher/change.go", "if c.Revision != 0 && c.Revision != v.Revision {", "if c.Revision > v.Revision {", database + " " + httpapi},
		{"the console changes a sale that it does not show", static + "steer.js", "  if (id === chosen) await choose(id);", "  await choose(id);", pages},
		{"the console steers nothing once it has its token", static + "console.js", "    watched = ''; // what was refused is asked for again\n", "", pages},
		{"the console refunds whatever is answered", static + "sold.js", "    if (dialog.returnValue !== 'yes') return;\n", "", pages},
		{"the console copies a sale without its time to pay", static + "offer.js", "  $('paywithin').value = v.pay_within_s ?? 0;\n", "", pages},
		{"the projector shows the whole page", static + "console.js", "  document.body.dataset.projector = what;\n", "", pages},
		{"a sale that has just ended is listed as open", "internal/database/list.go",
			`db.Where("begin_at <= ? AND end_at > ?", now, now)`, `db.Where("begin_at <= ? AND end_at >= ?", now, now)`, database},
	}
}
