package lockjudge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"seckill/internal/database"
	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// SaleOptions say under which lock is sold.
type SaleOptions struct {
	// Command starts a process of the lock, and Redis is the address of a server that nobody else
	// uses; as in [Options].
	Command []string
	Redis   string
	// Lease is how long the lock is held at most, unless its holder renews it; 0: 900 ms. The late
	// buyer needs two thirds more.
	Lease time.Duration
	// Progress is called before each sale. It may be nil.
	Progress func(what string)
}

// The names of the sales: in the first one each buyer is done long before the lease ends, in the
// second one the first buyer is not.
const (
	SaleInTime  = "in-time"
	SaleOneLate = "one-late"
)

const (
	saleProcesses = 3
	saleStock     = 30
	saleBuyers    = 70
	// saleTwice are the buyers who send two requests at once, to different processes.
	saleTwice = 10
	// saleWork is how long a buyer who is not late takes between reading the stock and writing it.
	saleWork = 25 * time.Millisecond
	// saleWait is how long a buyer waits for the lock, and saleLimit bounds a sale; both after the time that the late
	// buyer takes.
	saleWait  = 8 * time.Second
	saleLimit = 20 * time.Second
	// judgedLock is what the lock is called in the voucher's policy.
	judgedLock = "judged"
)

// SaleKinds are the anomalies that decide about a sale, the one that the buyers feel first.
func SaleKinds() []finding.Kind {
	return []finding.Kind{
		finding.Oversold, finding.DuplicateOrders, finding.LostUpdates, finding.Overlaps, finding.WrongReleases,
		finding.StaleWrites,
	}
}

// Sell sells a voucher twice under the lock: once with buyers in time, once with one that is late.
// The orders go the way of the service under a lock, through its own code. Nothing but the lock
// stands between the buyers: the stock is read and written back, and no index refuses a user's
// second order. The lock runs in several processes; the database is SQLite.
func Sell(r *testbed.Rig, o SaleOptions) ([]finding.Result, error) {
	if o.Lease == 0 {
		o.Lease = watchdog
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	s := &sales{Rig: r, options: o, client: redis.NewClient(&redis.Options{Addr: o.Redis})}
	r.Cleanup(func() { _ = s.client.Close() })
	if err := s.open(); err != nil {
		return nil, err
	}
	var results []finding.Result
	late := o.Lease * 5 / 3
	for i, sale := range []*sale{
		{id: SaleInTime, title: "every buyer is done before the lease ends"},
		{id: SaleOneLate, title: fmt.Sprintf("the first buyer takes %v, the lease %v", late, o.Lease), late: late},
	} {
		o.Progress("a sale under the lock: " + sale.title)
		sale.sales, sale.number = s, int64(i+1)
		result, err := sale.play()
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// sales is what both sales share.
type sales struct {
	*testbed.Rig
	options SaleOptions
	client  *redis.Client
	db      *database.DB
	lockers []*locker // one of each process
	renews  bool
}

// open opens a shop and starts the processes.
func (s *sales) open() error {
	ctx := s.Context()
	if err := s.client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	db, err := database.Open(ctx, database.Config{SQLite: testkit.SQLite(s.Rig).DSN})
	if err != nil {
		return err
	}
	s.db = db
	s.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(ctx); err != nil {
		return err
	}
	s.lockers = make([]*locker, saleProcesses)
	var starting errgroup.Group
	for i := range s.lockers {
		starting.Go(func() error {
			p, err := start(ctx, s.options.Command, url(s.options.Redis, 0), s.options.Lease)
			if err != nil {
				return err
			}
			s.lockers[i] = &locker{
				name: fmt.Sprintf("process-%d", i+1), history: newHistory(), program: p,
				begin: func() (*program, error) { return nil, errEnded },
			}
			return nil
		})
	}
	err = starting.Wait()
	for _, l := range s.lockers {
		if l != nil {
			s.Cleanup(l.kill)
			s.renews = l.program.renewed > 0
		}
	}
	return err
}

// sale is one of them.
type sale struct {
	*sales
	id, title string
	number    int64
	late      time.Duration // how long the first buyer takes; 0: as the others

	owners storedOwners
	logs   []*logged
	shops  []eventlog.OrderService // one of each process
}

// logged is the event log of a process.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// Write implements [io.Writer].
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logged) events() ([]eventlog.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return eventlog.Parse(l.lines.Bytes())
}

// play plays the sale and judges it.
func (s *sale) play() (finding.Result, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), s.late+saleLimit)
	defer cancel()
	v := s.voucher()
	inspector := &saleInspector{client: s.client}
	inspector.ignore = s.warmUp(ctx, v.StockKey(), inspector)
	if err := s.openShops(ctx, v, inspector); err != nil {
		return finding.Result{}, err
	}
	observer := s.Observe(inspector, v.StockKey())
	answers := s.sell(ctx, v)
	ev := judge.Evidence{LockStore: "Redis", Database: "SQLite", Samples: s.owners.translate(observer.Samples()), End: time.Now().UnixNano()}
	observer.Stop()
	for _, log := range s.logs {
		events, err := log.events()
		if err != nil {
			return finding.Result{}, err
		}
		ev.Events = append(ev.Events, s.owners.translateEvents(events)...)
	}
	audit, err := s.db.Orders().Audit(s.Context(), v.ID)
	if err != nil {
		return finding.Result{}, err
	}
	ev.Audit = &audit
	if !s.owners.any() { // the lock keeps nothing that could be found
		ev.Samples = nil
		for i := range ev.Events {
			ev.Events[i].Stored = nil
		}
	}
	result := s.judge(ev, answers)
	result.DurationMS = time.Since(began).Milliseconds()
	return result, nil
}

// voucher is what is sold. Nobody but the service's own code reads its policy.
func (s *sale) voucher() *voucher.Voucher {
	p := voucher.DefaultPolicy()
	p.Lock, p.Scope, p.Stock, p.Unique = judgedLock, voucher.ScopeVoucher, voucher.StockUnguarded, false
	p.LockWaitMS = (s.late + saleWait).Milliseconds()
	if !s.renews {
		p.LockTTLMS = s.options.Lease.Milliseconds()
	}
	p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: saleWork.Milliseconds()}}
	now := time.Now()
	return &voucher.Voucher{
		ID: s.number, Title: s.title, Stock: saleStock, InitialStock: saleStock, BeginAt: now, EndAt: now.Add(time.Hour),
		Policy: p, CreatedAt: now,
	}
}

// warmUp acquires and releases once in each process, so that connections are open. It returns the
// keys without a lease that are left: a counter of tokens is no lock.
func (s *sale) warmUp(ctx context.Context, key string, inspector *saleInspector) map[string]bool {
	for _, l := range s.lockers {
		held, err := l.Acquire(ctx, key, lock.Options{Wait: 2 * s.options.Lease, TTL: s.options.Lease})
		if err == nil {
			_ = held.Release(ctx) // what a lock gets wrong here, it gets wrong in the sale
		}
	}
	return inspector.lasting(ctx, key)
}

// openShops opens the service's locked flow once for each process of the lock.
func (s *sale) openShops(ctx context.Context, v *voucher.Voucher, inspector *saleInspector) error {
	if err := s.db.Vouchers().CreateVoucher(ctx, v); err != nil {
		return err
	}
	slow := *v
	slow.Policy.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: s.late.Milliseconds()}}
	for _, l := range s.lockers {
		log := &logged{}
		rec := eventlog.NewRecorder(log, l.name)
		s.Cleanup(func() { _ = rec.Close() })
		recorded := eventlog.Locker(judgedLock, &inspected{Locker: l, saleInspector: inspector, owners: &s.owners}, rec)
		shop, err := order.NewService(order.Config{
			Store: eventlog.Store(s.db.Orders(), rec), Vouchers: shelf{v, &slow}, IDs: ids{s.Rig}, Lockers: only{recorded},
			Now: time.Now, Log: slog.New(slog.DiscardHandler), Lab: true,
		})
		if err != nil {
			return err
		}
		s.logs, s.shops = append(s.logs, log), append(s.shops, eventlog.Orders(shop, rec))
	}
	return nil
}

// shelf has one voucher, and the same one as a late buyer sees it.
type shelf struct{ usual, slow *voucher.Voucher }

// Voucher implements [order.Vouchers].
func (s shelf) Voucher(ctx context.Context, _ int64) (*voucher.Voucher, error) {
	if ctx.Value(lateBuyer{}) != nil {
		return s.slow, nil
	}
	return s.usual, nil
}

// SoldOut implements [order.Vouchers].
func (s shelf) SoldOut(int64) {}

// Newer implements [order.Vouchers]. Nobody changes the voucher.
func (s shelf) Newer(context.Context, *voucher.Voucher) (*voucher.Voucher, error) {
	return nil, voucher.ErrBusy
}

// lateBuyer marks the context of the late buyer's order.
type lateBuyer struct{}

// ids are those of the run.
type ids struct{ run *testbed.Rig }

// NextID implements [order.IDs].
func (i ids) NextID(context.Context) (int64, error) { return i.run.NextID(), nil }

// only is the lock, whatever it is called.
type only struct{ l lock.Locker }

// Locker implements [order.Lockers].
func (o only) Locker(string) (lock.Locker, error) { return o.l, nil }

// sell sends all requests, the late buyer's first, and counts the answers by their codes.
func (s *sale) sell(ctx context.Context, v *voucher.Voucher) map[string]int {
	var mu sync.Mutex
	answers := map[string]int{}
	place := func(ctx context.Context, shop int, user int64) {
		_, err := s.shops[shop].Place(ctx, order.Request{VoucherID: v.ID, UserID: user})
		mu.Lock()
		defer mu.Unlock()
		answers[codeOf(err)]++
	}
	var buying sync.WaitGroup
	first := int64(1)
	if s.late > 0 {
		buying.Go(func() { place(context.WithValue(ctx, lateBuyer{}, true), 0, first) })
		s.Until("the first buyer has asked for the lock and has an answer", func() bool { return s.asked(first) })
		first++
	}
	start := make(chan struct{})
	for user := first; user <= saleBuyers; user++ {
		shops := []int{int(user) % saleProcesses}
		if user > 1 && user <= 1+saleTwice {
			shops = append(shops, int(user+1)%saleProcesses)
		}
		for _, shop := range shops {
			buying.Go(func() {
				<-start
				place(ctx, shop, user)
			})
		}
	}
	close(start)
	buying.Wait()
	return answers
}

// asked reports whether a user has got the lock, or an error in its place.
func (s *sale) asked(user int64) bool {
	for _, log := range s.logs {
		events, _ := log.events() // a line that is written just now comes the next time
		for _, e := range events {
			if e.User == user && (e.Kind == eventlog.Acquired || e.Kind == eventlog.Refused) {
				return true
			}
		}
	}
	return false
}

// codeOf names the answer to a buyer, as the service does.
func codeOf(err error) string {
	switch {
	case err == nil:
		return load.Created
	case errors.Is(err, order.ErrBusy):
		return load.Busy
	case errors.Is(err, voucher.ErrSoldOut):
		return "sold_out"
	case errors.Is(err, order.ErrAlreadyOrdered):
		return "already_ordered"
	}
	return "unavailable"
}

// judge counts the anomalies and draws them.
func (s *sale) judge(ev judge.Evidence, answers map[string]int) finding.Result {
	j := judge.Look(ev)
	r := finding.Result{
		ID: s.id, Title: s.title, Group: "A sale under the lock", Lock: judgedLock, Observed: finding.Holds, About: SaleKinds(),
		Anomalies: map[finding.Kind]int{}, Orders: int(ev.Audit.Orders), Answers: answers, Engine: s.Engine(),
		Measures: append(j.Measures,
			finding.Measure{Name: i18n.Plain("vouchers"), Value: saleStock},
			finding.Measure{Name: i18n.Plain("buyers"), Value: saleBuyers},
			finding.Measure{Name: i18n.Plain("processes of the lock"), Value: saleProcesses},
			finding.Measure{Name: i18n.Plain("lease"), Value: float64(s.options.Lease.Milliseconds()), Unit: i18n.Plain("ms")}),
	}
	for _, n := range answers {
		r.Requests += n
	}
	for _, kind := range SaleKinds() {
		r.Anomalies[kind] = j.Anomalies[kind]
		if j.Anomalies[kind] > 0 {
			r.Observed = finding.Breaks
		}
	}
	var proofs []finding.Witness
	for _, w := range witness.Proofs(j, SaleKinds()...) {
		if r.Anomalies[w.Kind] > 0 {
			proofs = append(proofs, w)
		}
	}
	if len(proofs) == 0 {
		if w, ok := witness.Picture(ev, ""); ok {
			proofs = append(proofs, w)
		}
	}
	if all := witness.Gather(proofs); len(all) > 0 {
		r.Witness, r.More = &all[0], all[1:]
	}
	return r
}
