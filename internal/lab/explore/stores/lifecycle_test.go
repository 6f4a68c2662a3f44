package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// lives are lives of one order on SQLite. What package database logs of its statements tells where others can come in
// between: after each read, and not within a transaction, as SQLite has one writer.
type lives struct {
	t       *testing.T
	db      *database.DB
	id      int64 // the voucher's; the order's is 10 times as much
	within  map[*process]bool
	commits []int // the process of each transaction
}

// Enabled, WithAttrs, WithGroup and Handle implement [slog.Handler].
func (l *lives) Enabled(context.Context, slog.Level) bool { return true }
func (l *lives) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lives) WithGroup(string) slog.Handler            { return l }

func (l *lives) Handle(ctx context.Context, record slog.Record) error {
	p, statement := processOf(ctx), ""
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "sql" {
			statement = a.Value.String()
		}
		return true
	})
	switch {
	case p == nil:
	case statement == "BEGIN IMMEDIATE":
		l.within[p] = true
	case statement == "COMMIT":
		l.within[p], l.commits = false, append(l.commits, p.number)
	case statement == "ROLLBACK":
		l.within[p] = false
	case strings.HasPrefix(statement, "SELECT") && !l.within[p]:
		p.note(fmt.Sprint(len(l.commits))) // what it read follows from the transactions so far
		p.step("after " + strings.Join(strings.Fields(statement)[:2], " "))
	}
	return nil
}

// change is something that happens to an order.
type change func(ctx context.Context, l *lives) error

func cancel(ctx context.Context, l *lives) error {
	return fail.Of(l.db.Lifecycle().Cancel(ctx, 10*l.id))
}

func expire(ctx context.Context, l *lives) error {
	return fail.Of(l.db.Lifecycle().ExpireDue(ctx, 10))
}

func refund(ctx context.Context, l *lives) error {
	return fail.Of(l.db.Lifecycle().BeginRefund(ctx, 10*l.id))
}

// pay is a webhook of a payment.
func pay(n int) change {
	return func(ctx context.Context, l *lives) error {
		return fail.Of(l.db.Lifecycle().MarkPaid(ctx, order.Receipt{
			PaymentID: fmt.Sprintf("%d-%d", l.id, n), OrderID: 10 * l.id, AmountCents: 100, At: time.Now(),
		}))
	}
}

// buy is another order of the voucher.
func buy(user int64) change {
	return func(ctx context.Context, l *lives) error { return l.place(ctx, 10*l.id+1, user) }
}

func (l *lives) place(ctx context.Context, id, user int64) error {
	return l.db.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		o := order.Order{
			ID: id, VoucherID: l.id, UserID: user, Status: order.Unpaid, AmountCents: 100, CreatedAt: time.Now(), PayBy: time.Now().Add(-time.Second),
		}
		return errors.Join(tx.Decrement(ctx, l.id), tx.Insert(ctx, o, true))
	})
}

// begin starts a life: an order of user 1 for the only unit, what happened to it before, and what happens now.
func (l *lives) begin(before []change, now map[string]change) *run {
	ctx := l.t.Context()
	fail.NowIf(l.t, expire(ctx, l)) // what lives before have left
	l.id++
	l.within, l.commits = map[*process]bool{}, nil
	v := sale{stock: 1, id: l.id}.voucher()
	v.Policy, v.PayWithin = voucher.DefaultPolicy(), time.Hour
	fail.NowIf(l.t, l.db.Vouchers().CreateVoucher(ctx, v))
	fail.NowIf(l.t, l.place(ctx, 10*l.id, 1))
	for _, c := range before {
		fail.NowIf(l.t, c(ctx, l))
	}
	var bodies []func(context.Context)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		bodies = append(bodies, func(ctx context.Context) {
			err := now[name](ctx, l)
			if state, ok := errors.AsType[*order.StateError](err); ok {
				err = state.Err
			}
			processOf(ctx).note(said(err))
		})
	}
	return start(ctx, bodies...)
}

// judge returns what is wrong at the end of a life.
func (l *lives) judge(*run) (wrong []string) {
	ctx := l.t.Context()
	audit, err := l.db.Orders().Audit(ctx, l.id)
	fail.NowIf(l.t, err)
	if !audit.Balanced() {
		wrong = append(wrong, fmt.Sprintf("the stock does not add up: %+v", audit))
	}
	o, err := l.db.Orders().Order(ctx, 10*l.id)
	fail.NowIf(l.t, err)
	d, err := l.db.Lifecycle().Details(ctx, o)
	fail.NowIf(l.t, err)
	kept := 0
	for _, p := range d.Payments {
		if !p.RefundDue && p.RefundedAt.IsZero() {
			kept++
		}
		if p.Outcome == order.SettledPaid && o.Status != order.Paid && o.Status != order.Refunding {
			wrong = append(wrong, fmt.Sprintf("an order that was paid in time is %s", o.Status))
		}
	}
	if paid := o.Status == order.Paid; paid != (kept == 1) || kept > 1 {
		wrong = append(wrong, fmt.Sprintf("an order is %s, and the money of %d payments is kept", o.Status, kept))
	}
	return wrong
}

// What happens to an order at the same time comes in every order of its statements. The unit comes back once at most,
// money is kept for an order that is paid and for no other one, and an order that was paid in time stays paid.
func TestLivesInEveryOrder(t *testing.T) {
	t.Parallel()
	l := &lives{t: t}
	db, err := database.Open(t.Context(), database.Config{SQLite: testkit.SQLite(t).DSN, SlowQuery: 1, Logger: slog.New(l)})
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, db.Close()) })
	fail.NowIf(t, fail.Of(db.Migrate(t.Context())))
	l.db = db
	table := []string{"before       at the same time                       interleavings  states"}
	for _, c := range []struct {
		before string
		did    []change
		now    map[string]change
	}{
		{"unpaid", nil, map[string]change{"cancel": cancel, "pay 1": pay(1)}},
		{"unpaid", nil, map[string]change{"expire": expire, "pay 1": pay(1)}},
		{"unpaid", nil, map[string]change{"pay 1": pay(1), "pay 1 again": pay(1)}},
		{"unpaid", nil, map[string]change{"pay 1": pay(1), "pay 2": pay(2)}},
		{"unpaid", nil, map[string]change{"cancel": cancel, "cancel again": cancel, "expire": expire}},
		{"unpaid", nil, map[string]change{"cancel": cancel, "expire": expire, "buy": buy(2)}},
		{"cancelled", []change{cancel}, map[string]change{"pay 1": pay(1), "pay 1 again": pay(1)}},
		{"cancelled", []change{cancel}, map[string]change{"pay 1": pay(1), "buy": buy(2)}},
		{"cancelled", []change{cancel}, map[string]change{"pay 1": pay(1), "buy again": buy(1)}},
		{"paid", []change{pay(1)}, map[string]change{"refund": refund, "refund again": refund, "buy": buy(2)}},
		{"paid", []change{pay(1)}, map[string]change{"refund": refund, "expire": expire, "pay 1 again": pay(1)}},
	} {
		all, states := explore(subject{
			start: func() *run { return l.begin(c.did, c.now) },
			state: func() string { return fmt.Sprint(l.commits) },
			judge: l.judge,
		})
		names := strings.Join(slices.Sorted(maps.Keys(c.now)), ", ")
		for wrong, e := range all.after(-1) {
			t.Errorf("%s: %s: %s, after %v", c.before, names, wrong, e.schedule)
		}
		table = append(table, fmt.Sprintf("%-11s  %-38s %13d  %6d", c.before, names, all.interleavings, states))
	}
	t.Logf("%d lives\n%s", l.id, strings.Join(table, "\n"))
}
