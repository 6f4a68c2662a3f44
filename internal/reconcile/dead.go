package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// ListedDeadLetters is how many dead letters of a voucher are listed: the latest.
const ListedDeadLetters = 100

// DeadLetters are the dead letters of a voucher that Redis still has, oldest first. They say why an order was rejected.
// The record of the rejected orders is the database.
type DeadLetters struct {
	// Rejected is how many orders of the voucher are rejected in the database. There can be fewer dead letters, if
	// Redis lost some, and more: an entry that is not an order is never in the database.
	Rejected int64        `json:"rejected"`
	Letters  []DeadLetter `json:"letters"`
	// Omitted is how many earlier ones Redis has too.
	Omitted int64 `json:"omitted"`
}

// DeadLetter is an entry that the consumers rejected. If the entry was malformed, a field is what the entry said, or
// "".
type DeadLetter struct {
	OrderID string    `json:"order_id"`
	UserID  string    `json:"user_id"`
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"`
	At      time.Time `json:"at"`
	Bucket  int       `json:"bucket"`
}

// deadLetters lists the dead letters of a voucher. There are count of them.
func (r *Reconciler) deadLetters(ctx context.Context, v contract.AdmissionVoucher, count int64) (*DeadLetters, error) {
	all := &DeadLetters{Letters: []DeadLetter{}}
	var err error
	if all.Rejected, err = r.Orders.Rejected(ctx, v.VoucherID); err != nil {
		return nil, err
	}
	for b := range v.Buckets {
		stream := ledger.KeysOf(r.Prefix, v.VoucherID, b).Dead
		entries, err := r.Client.XRevRangeN(ctx, stream, "+", "-", ListedDeadLetters).Result()
		if err != nil {
			return nil, fmt.Errorf("%w: read Redis: %w", order.ErrUnavailable, err)
		}
		for _, e := range entries {
			l := ledger.ParseDeadLetter(e.ID, e.Values)
			all.Letters = append(all.Letters, DeadLetter{
				OrderID: l.OrderID, UserID: l.UserID, Reason: l.Reason, Detail: l.Detail, At: l.At, Bucket: b,
			})
		}
	}
	slices.SortStableFunc(all.Letters, func(a, b DeadLetter) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.OrderID, b.OrderID))
	})
	all.Letters = all.Letters[max(0, len(all.Letters)-ListedDeadLetters):]
	all.Omitted = max(0, count-int64(len(all.Letters)))
	return all, nil
}

// PrintDeadLetters prints how many orders of each voucher are rejected, and the dead letters. The report must have
// them.
func (r Report) PrintDeadLetters(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	concerned := slices.DeleteFunc(slices.Clone(r.Vouchers), func(e Equation) bool {
		return e.Dead.Rejected == 0 && e.DeadLetters == 0
	})
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
			// A malformed entry may contain anything, such as tabs and line breaks.
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%q\n", e.VoucherID,
				numberOrQuoted(d.OrderID), numberOrQuoted(d.UserID), d.Reason, d.At.Format(time.RFC3339Nano), d.Detail)
		}
	}
	if omitted > 0 {
		fmt.Fprintf(w, "and %d earlier ones: the latest %d of each voucher are listed\n", omitted, ListedDeadLetters)
	}
	return w.Flush()
}

// numberOrQuoted returns a number unchanged, and anything else in quotes.
func numberOrQuoted(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text
	}
	return strconv.Quote(text)
}
