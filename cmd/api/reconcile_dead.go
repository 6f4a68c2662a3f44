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

// deadLettersJSON are the dead letters of a voucher, in the order of their coming.
type deadLettersJSON struct {
	Letters []deadJSON `json:"letters"`
	// Omitted is how many earlier ones are not listed.
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

// letters prints the dead letters of all vouchers.
func (r reportJSON) letters(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	listed, omitted := 0, int64(0)
	for _, e := range r.Vouchers {
		omitted += e.Dead.Omitted
		for _, d := range e.Dead.Letters {
			if listed++; listed == 1 {
				fmt.Fprintln(w, "\ndead letter of voucher\torder\tuser\treason\tat\tdetail")
			}
			// What the entry said may be anything.
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%q\n", e.VoucherID, plain(d.OrderID), plain(d.UserID), d.Reason, d.At.Format(time.RFC3339Nano), d.Detail)
		}
	}
	switch {
	case listed == 0:
		fmt.Fprintln(w, "no dead letters")
	case omitted > 0:
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
