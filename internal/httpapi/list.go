package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"seckill/internal/voucher"
)

// voucherPage is a page of a list of vouchers.
type voucherPage struct {
	voucher.List
	limit int
}

// vouchersJSON is a page of vouchers.
type vouchersJSON struct {
	Vouchers []voucherJSON `json:"vouchers"`
	// NextAfter is the value of ?after= for the next page; absent on the last page.
	NextAfter string `json:"next_after,omitempty"`
}

// listVouchers is GET /api/v1/vouchers.
func (a *API) listVouchers(ctx context.Context, r *request) (reply, error) {
	page, err := r.queryVouchers()
	if err != nil {
		return reply{}, err
	}
	// One more voucher than the page holds shows whether there is another page.
	vouchers, err := a.deps.Vouchers.Vouchers(ctx, page.List, page.limit+1)
	if err != nil {
		return reply{}, err
	}
	if len(vouchers) == 0 {
		return a.render(http.StatusOK, newVouchersJSON(page, vouchers))
	}
	out, err := cachedReply(a, &a.rendered.lists, page, &vouchers[0], func() any { return newVouchersJSON(page, vouchers) })
	return r.revalidated(out), err
}

func newVouchersJSON(page voucherPage, vouchers []*voucher.Voucher) vouchersJSON {
	out := vouchersJSON{Vouchers: []voucherJSON{}}
	if len(vouchers) > page.limit {
		vouchers = vouchers[:page.limit]
		out.NextAfter = formatPosition(page.List, page.Position(vouchers[page.limit-1]))
	}
	for _, v := range vouchers {
		out.Vouchers = append(out.Vouchers, newVoucherJSON(v))
	}
	return out
}

// queryVouchers reads which vouchers are to be listed.
func (r *request) queryVouchers() (p voucherPage, err error) {
	query, err := r.query()
	if err != nil {
		return p, err
	}
	if p.State, err = oneOf(query, "state", voucher.StateOpen, voucher.StateSoon, voucher.StateOver); err != nil {
		return p, err
	}
	if p.Sort, err = oneOf(query, "sort", voucher.SortBegin, voucher.SortBeginDesc); err != nil {
		return p, err
	}
	if query.Has("after") {
		if p.After, err = parsePosition(p.List, query.Get("after")); err != nil {
			return p, err
		}
	}
	p.limit, err = limitOf(query)
	return p, err
}

// formatPosition writes a place in a list: the id of a voucher, and before it the time by which the list is sorted.
func formatPosition(list voucher.List, p voucher.Position) string {
	if list.Sort == "" {
		return formatID(p.ID)
	}
	return strconv.FormatInt(p.BeginAt, 10) + "-" + formatID(p.ID)
}

func parsePosition(list voucher.List, given string) (p voucher.Position, err error) {
	id := given
	if list.Sort != "" {
		begin, rest, both := strings.Cut(given, "-")
		id = rest
		if p.BeginAt, err = strconv.ParseInt(begin, 10, 64); err != nil || !both || p.BeginAt > maxBeginAt {
			return p, invalid("after is %q; with sort it is the next_after of the page before", clip(given))
		}
	}
	p.ID, err = parseID("after", id)
	return p, err
}

// maxBeginAt is the last microsecond of the year 9999.
const maxBeginAt = 253402300799999999
