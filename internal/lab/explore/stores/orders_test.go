package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/none"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// The anomalies of a sale.
const (
	oversold    = "oversold"
	twoOrders   = "two orders of one user"
	lostUpdate  = "lost update"
	lostOrder   = "an order that was confirmed is missing"
	noAnomalies = "none"
)

// sale is a voucher with its policy and the users who order at the same time.
type sale struct {
	policy voucher.Policy
	stock  int64
	users  []int64
	id     int64 // the voucher's
}

func (s sale) voucher() *voucher.Voucher {
	begin := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	return &voucher.Voucher{
		ID: s.id, Title: "100 off", PriceCents: 8000, ValueCents: 10000, Stock: s.stock, InitialStock: s.stock,
		BeginAt: begin, EndAt: begin.Add(time.Hour), Policy: s.policy, CreatedAt: begin,
	}
}

// start has the users order, each in a process of its own.
func (s sale) start(ctx context.Context, store order.Store) *run {
	locker := &steppedLock{held: map[string]bool{}, waiting: map[string][]*process{}, owners: lock.NewOwners()}
	v := s.voucher()
	service, err := order.NewService(order.Config{
		Store: steppedStore{store}, Vouchers: cached{v}, IDs: noIDs{}, Lockers: lockers{locker}, Lab: true,
		Now: func() time.Time { return v.BeginAt }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	buyers := make([]func(context.Context), len(s.users))
	for i, user := range s.users {
		buyers[i] = func(ctx context.Context) {
			_, err := service.Place(ctx, order.Request{VoucherID: v.ID, UserID: user, ID: 10*s.id + int64(i)})
			processOf(ctx).note(said(err))
		}
	}
	return start(ctx, buyers...)
}

// judge returns the anomalies of a sale that is over.
func judge(r *run, audit order.Audit) (anomalies []string) {
	confirmed := int64(0)
	for _, p := range r.processes {
		if p.saw[len(p.saw)-1] == "ok" {
			confirmed++
		}
	}
	for anomaly, is := range map[string]bool{
		oversold: audit.Oversold() > 0, twoOrders: audit.DuplicateOrders() > 0, lostUpdate: audit.Drift() != 0, lostOrder: audit.Orders != confirmed,
	} {
		if is {
			anomalies = append(anomalies, anomaly)
		}
	}
	return anomalies
}

// explore tries every interleaving of the sale on the model.
func (s sale) explore(t *testing.T) (*ahead, int) { return explore(s.subject(t)) }

func (s sale) subject(t *testing.T) subject {
	var model *readCommitted
	return subject{
		start: func() *run {
			model = newReadCommitted(s.stock)
			return s.start(t.Context(), model)
		},
		state: func() string { return model.state() },
		judge: func(r *run) []string { return judge(r, model.audit()) },
	}
}

// said is an error as a process notes it.
func said(err error) string {
	for name, is := range map[string]error{
		"sold out": voucher.ErrSoldOut, "has ordered": order.ErrAlreadyOrdered, "conflict": order.ErrConflict, "unavailable": order.ErrUnavailable,
		"not found": order.ErrNotFound,
	} {
		if errors.Is(err, is) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// steppedStore makes a step of each statement. No write is deferred, so that others can come in between.
type steppedStore struct{ order.Store }

func (s steppedStore) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	p := processOf(ctx)
	return s.Store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		stepped := &steppedTx{Tx: tx, p: p}
		err := fn(ctx, stepped)
		switch {
		case err == nil:
			p.step("COMMIT")
		case stepped.wrote:
			p.step("ROLLBACK")
		}
		return err
	})
}

func (s steppedStore) DurableOrder(ctx context.Context, id int64) (order.Order, error) {
	p := processOf(ctx)
	p.step("SELECT order")
	o, err := s.Store.DurableOrder(ctx, id)
	p.note(said(err))
	return o, err
}

func (s steppedStore) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	p := processOf(ctx)
	p.step("SELECT ordered")
	is, err := s.Store.Ordered(ctx, voucherID, userID)
	p.note(fmt.Sprint(is, said(err)))
	return is, err
}

type steppedTx struct {
	order.Tx
	p     *process
	wrote bool // and may hold locks
}

func (t *steppedTx) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	t.p.step("SELECT ordered")
	is, err := t.Tx.Ordered(ctx, voucherID, userID)
	t.p.note(fmt.Sprint(is, said(err)))
	return is, err
}

func (t *steppedTx) StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error) {
	t.p.step("SELECT stock")
	stock, version, err = t.Tx.StockOf(ctx, voucherID)
	t.p.note(fmt.Sprint(stock, version, said(err)))
	return stock, version, err
}

func (t *steppedTx) write(ctx context.Context, name string, write func() error) error {
	t.p.step(name)
	err := write()
	if err == nil {
		err = t.Flush(ctx)
	}
	t.wrote = t.wrote || err == nil
	t.p.note(said(err))
	return err
}

func (t *steppedTx) Decrement(ctx context.Context, id int64) error {
	return t.write(ctx, "UPDATE if any are left", func() error { return t.Tx.Decrement(ctx, id) })
}

func (t *steppedTx) SetStock(ctx context.Context, id, stock int64) error {
	return t.write(ctx, fmt.Sprint("UPDATE to ", stock), func() error { return t.Tx.SetStock(ctx, id, stock) })
}

func (t *steppedTx) DecrementVersion(ctx context.Context, id, version int64) error {
	return t.write(ctx, fmt.Sprint("UPDATE version ", version), func() error { return t.Tx.DecrementVersion(ctx, id, version) })
}

func (t *steppedTx) Insert(ctx context.Context, o order.Order, unique bool) error {
	return t.write(ctx, "INSERT", func() error { return t.Tx.Insert(ctx, o, unique) })
}

// steppedLock excludes the processes of a run. Those that wait get it in their order.
type steppedLock struct {
	held    map[string]bool
	waiting map[string][]*process
	owners  *lock.Owners
}

const lockStep = "lock"

func (l *steppedLock) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	p := processOf(ctx)
	p.step(lockStep)
	p.mu.Lock()
	taken := l.held[key]
	if taken {
		l.waiting[key] = append(l.waiting[key], p)
	}
	l.held[key] = true
	p.mu.Unlock()
	if taken {
		p.wait()
	}
	return lock.NewHeld(ctx, lock.Grant{Key: key, Owner: l.owners.New(), Release: func(context.Context) error {
		p.step("unlock")
		p.mu.Lock()
		var next *process
		if all := l.waiting[key]; len(all) > 0 {
			next, l.waiting[key] = all[0], all[1:]
		} else {
			delete(l.held, key)
		}
		p.mu.Unlock()
		if next != nil {
			next.wake()
		}
		return nil
	}}), nil
}

type lockers struct{ stepped *steppedLock }

func (l lockers) Locker(name string) (lock.Locker, error) {
	if name == "none" {
		return none.New(), nil
	}
	return l.stepped, nil
}

type cached struct{ v *voucher.Voucher }

func (c cached) Voucher(context.Context, int64) (*voucher.Voucher, error) { return c.v, nil }
func (cached) Newer(context.Context, *voucher.Voucher) (*voucher.Voucher, error) {
	return nil, voucher.ErrBusy
}

func (cached) SoldOut(int64) {}

type noIDs struct{}

func (noIDs) NextID(context.Context) (int64, error) { panic("the requests bring their ids") }

// policies are the ways to sell, each with what can go wrong. A lock of a user's orders guards no stock.
func policies() map[string]struct {
	policy voucher.Policy
	broken []string
} {
	all := map[string]struct {
		policy voucher.Policy
		broken []string
	}{}
	for _, unique := range []bool{false, true} {
		for _, stock := range []voucher.Stock{voucher.StockUnguarded, voucher.StockConditional, voucher.StockVersion} {
			for name, p := range map[string]voucher.Policy{
				"none":               {Lock: "none", Scope: voucher.ScopeVoucher, Placement: voucher.AroundTx},
				"voucher, around-tx": {Lock: "excluding", Scope: voucher.ScopeVoucher, Placement: voucher.AroundTx},
				"user, around-tx":    {Lock: "excluding", Scope: voucher.ScopeUser, Placement: voucher.AroundTx},
				"voucher, inside-tx": {Lock: "excluding", Scope: voucher.ScopeVoucher, Placement: voucher.InsideTx},
			} {
				p.Flow, p.Stock, p.Unique = voucher.FlowLocked, stock, unique
				around := p.Lock != "none" && p.Placement == voucher.AroundTx
				var broken []string
				if stock == voucher.StockUnguarded && (!around || p.Scope != voucher.ScopeVoucher) {
					broken = append(broken, lostUpdate, oversold)
				}
				if !unique && !around {
					broken = append(broken, twoOrders)
				}
				all[fmt.Sprintf("%-18s  %-11s  %-6v", name, stock, unique)] = struct {
					policy voucher.Policy
					broken []string
				}{p, broken}
			}
		}
	}
	return all
}

// sales returns the sales of a policy: two users buy the last unit, one user buys twice, and three orders come at once.
func sales(p voucher.Policy) []sale {
	return []sale{
		{p, 1, []int64{101, 102}, 1},
		{p, 2, []int64{101, 101}, 1},
		{p, 2, []int64{101, 101, 102}, 1},
	}
}

// Every interleaving of the statements of two and of three orders is tried on the model. Each weak policy breaks in the
// ways it is said to, and the others in none.
func TestOrdersInEveryOrder(t *testing.T) {
	t.Parallel()
	table := []string{"lock                stock        unique  interleavings  states  broken: switches and steps of the shortest one"}
	var total, states int
	all := policies()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		broken, n, seen := map[string]counterexample{}, 0, 0
		for _, s := range sales(all[name].policy) {
			f, visited := s.explore(t)
			n, seen = n+f.interleavings, seen+visited
			for anomaly, c := range f.after(-1) {
				add(broken, anomaly, c)
			}
		}
		got, want := slices.Sorted(maps.Keys(broken)), all[name].broken
		if !slices.Equal(got, want) {
			t.Errorf("%s: broken are %q, want %q", name, got, want)
		}
		var told []string
		for _, a := range got {
			told = append(told, fmt.Sprintf("%s %d/%d", a, broken[a].switches, len(broken[a].schedule)))
		}
		if told == nil {
			told = []string{noAnomalies}
		}
		table = append(table, fmt.Sprintf("%s %14d  %6d  %s", name, n, seen, strings.Join(told, ", ")))
		total, states = total+n, states+seen
	}
	t.Logf("%d interleavings, %d states\n%s", total, states, strings.Join(table, "\n"))
}

// That a state is explored once changes no number.
func TestStatesMeanTheSame(t *testing.T) {
	t.Parallel()
	p := voucher.Policy{Flow: voucher.FlowLocked, Lock: "excluding", Scope: voucher.ScopeVoucher, Placement: voucher.InsideTx, Stock: voucher.StockUnguarded}
	s := sale{p, 2, []int64{101, 101}, 1}
	got, _ := s.explore(t)
	n := 0
	everyRun := s.subject(t)
	everyRun.state = func() string { n++; return strconv.Itoa(n) }
	want, _ := explore(everyRun)
	if got.interleavings != want.interleavings || !reflect.DeepEqual(got.after(-1), want.after(-1)) {
		t.Errorf("%d interleavings, %v; without states %d, %v", got.interleavings, got.after(-1), want.interleavings, want.after(-1))
	}
}
