package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// deadListed is how many dead letters of a voucher are listed: the latest.
const deadListed = 100

// deadLettersJSON are the dead letters of a voucher that Redis still has, in the order of
// their coming. They say why; the record of what was rejected is the database.
type deadLettersJSON struct {
	// Rejected is how many orders of the voucher are rejected in the database. There can be
	// fewer letters, when Redis forgot them, and more: an entry that is no order is never one.
	Rejected int64      `json:"rejected"`
	Letters  []deadJSON `json:"letters"`
	// Omitted is how many earlier ones Redis has too.
	Omitted int64 `json:"omitted"`
}

// deadJSON is an entry that the consumers could not carry out. Of one that was no order
// a field is what it said, or "".
type deadJSON struct {
	OrderID string    `json:"order_id"`
	UserID  string    `json:"user_id"`
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"`
	At      time.Time `json:"at"`
	Bucket  int       `json:"bucket"`
}

// dead lists the dead letters of a voucher, of which there are so many.
func (r *reconciler) dead(ctx context.Context, sale order.Sale, there int64) (*deadLettersJSON, error) {
	list := &deadLettersJSON{Letters: []deadJSON{}}
	var err error
	if list.Rejected, err = r.orders.Rejected(ctx, sale.VoucherID); err != nil {
		return nil, err
	}
	for b := range sale.Buckets {
		letters, err := r.client.XRevRangeN(ctx, admkey.Of(keyPrefix, sale.VoucherID, b).Dead, "+", "-", deadListed).Result()
		if err != nil {
			return nil, fmt.Errorf("%w: ask Redis: %w", order.ErrUnavailable, err)
		}
		for _, l := range letters {
			list.Letters = append(list.Letters, newDeadJSON(b, l))
		}
	}
	slices.SortStableFunc(list.Letters, func(a, b deadJSON) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.OrderID, b.OrderID))
	})
	list.Letters = list.Letters[max(0, len(list.Letters)-deadListed):]
	list.Omitted = max(0, there-int64(len(list.Letters)))
	return list, nil
}

func newDeadJSON(bucket int, l redis.XMessage) deadJSON {
	field := func(name string) string {
		text, _ := l.Values[name].(string)
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	d := deadJSON{
		OrderID: field(admkey.EntryOrder), UserID: field(admkey.EntryUser),
		Reason: field(admkey.DeadReason), Detail: field(admkey.DeadDetail), Bucket: bucket,
	}
	// A letter's id begins with the time at which it was written.
	ms, _, _ := strings.Cut(l.ID, "-")
	if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
		d.At = time.UnixMilli(n).UTC()
	}
	return d
}

// letters prints of all vouchers how many orders are rejected, and the dead letters.
func (r reportJSON) letters(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	concerned := slices.DeleteFunc(slices.Clone(r.Vouchers), func(e equationJSON) bool { return e.Dead.Rejected == 0 && e.DeadLetters == 0 })
	if len(concerned) == 0 {
		fmt.Fprintln(w, "no order is rejected in the database, and Redis has no dead letters")
		return w.Flush()
	}
	fmt.Fprintln(w, "\nvoucher\trejected in the database\tdead letters in Redis")
	omitted := int64(0)
	for _, e := range concerned {
		fmt.Fprintf(w, "%s\t%d\t%d\n", e.VoucherID, e.Dead.Rejected, e.DeadLetters)
		omitted += e.Dead.Omitted
	}
	listed := 0
	for _, e := range concerned {
		for _, d := range e.Dead.Letters {
			if listed++; listed == 1 {
				fmt.Fprintln(w, "\ndead letter of voucher\torder\tuser\treason\tat\tdetail")
			}
			// What the entry said may be anything.
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%q\n", e.VoucherID, plain(d.OrderID), plain(d.UserID), d.Reason, d.At.Format(time.RFC3339Nano), d.Detail)
		}
	}
	if omitted > 0 {
		fmt.Fprintf(w, "and %d earlier ones: the latest %d of each voucher are listed\n", omitted, deadListed)
	}
	return w.Flush()
}

// plain shows a number as it is, and anything else in quotes.
func plain(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text
	}
	return strconv.Quote(text)
}
