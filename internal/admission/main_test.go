package admission

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/admission/admkey"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shelf is the database, in memory: one voucher, orders by user.
type shelf struct {
	mu       sync.Mutex
	voucher  voucher.Voucher
	standing order.Standing
	orders   map[int64]order.Order // by user
	rejected map[int64]order.Order // by id
	down     error
	others   []order.Sale
	onOpen   func() // after an epoch was opened here, and before it is in Redis
}

// newShelf returns a database with one voucher, on sale now.
func newShelf(stock int64) *shelf {
	now := time.Now()
	return &shelf{
		voucher: voucher.Voucher{
			ID: 7001, Stock: stock, InitialStock: stock,
			BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour),
		},
		standing: order.Standing{Epoch: 1, Seq: make([]int64, 1), Stock: stock},
		orders:   make(map[int64]order.Order), rejected: make(map[int64]order.Order),
	}
}

func (s *shelf) split(buckets int) {
	s.voucher.Policy.Buckets, s.standing.Seq = buckets, make([]int64, buckets)
}

func (s *shelf) do(id int64, fn func() error) (order.Standing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return order.Standing{}, s.down
	case id != s.voucher.ID:
		return order.Standing{}, voucher.ErrNotFound
	}
	err := fn()
	now := s.standing
	now.Seq = slices.Clone(now.Seq) // it goes on
	return now, err
}

func (s *shelf) Standing(_ context.Context, id int64) (order.Standing, error) {
	return s.do(id, func() error { return nil })
}

func (s *shelf) Close(_ context.Context, id int64) (order.Standing, error) {
	return s.do(id, func() error { s.standing.Epoch |= 1; return nil })
}

func (s *shelf) Open(_ context.Context, id, closed int64) (order.Standing, error) {
	st, err := s.do(id, func() error {
		if s.standing.Epoch != closed {
			return order.ErrConflict
		}
		s.standing.Epoch++
		return nil
	})
	if err == nil && s.onOpen != nil {
		s.onOpen()
	}
	return st, err
}

func (s *shelf) LiveOrders(_ context.Context, _, after int64, limit int) ([]order.Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page []order.Order
	for _, user := range slices.Sorted(maps.Keys(s.orders)) {
		if user > after && len(page) < limit {
			page = append(page, s.orders[user])
		}
	}
	return page, s.down
}

func (s *shelf) AdmissionSales(_ context.Context, endsAfter time.Time) ([]order.Sale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voucher.EndAt.After(endsAfter) {
		return append([]order.Sale{{VoucherID: s.voucher.ID, Buckets: len(s.standing.Seq)}}, s.others...), s.down
	}
	return s.others, s.down
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// persist does what a consumer's transaction does, by the rules of [order.Shelf].
func (s *shelf) persist(a order.Accepted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch have, ordered := s.orders[a.UserID]; {
	case have.ID == a.OrderID && ordered:
		return nil
	case s.rejected[a.OrderID].ID != 0:
		return order.ErrConflict
	case ordered:
		return order.ErrAlreadyOrdered
	case s.standing.Epoch > a.Epoch|1:
		return order.ErrStaleEpoch
	case s.standing.Stock <= 0:
		return voucher.ErrSoldOut
	}
	s.standing.Stock--
	s.standing.Seq[a.Bucket] = max(s.standing.Seq[a.Bucket], a.Seq)
	s.orders[a.UserID] = order.Order{ID: a.OrderID, UserID: a.UserID, VoucherID: a.VoucherID, Status: order.Confirmed}
	return nil
}

// consumer takes entries out of the stream.
type consumer struct {
	tb     testing.TB
	client redis.UniversalClient
	shelf  *shelf
	keys   admkey.Keys
	others []admkey.Keys // those of the buckets from 1 on
}

// giveBack is what a consumer does with an order it cannot carry out.
var giveBack = redis.NewScript(`
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'stock', 1)
  redis.call('HINCRBY', KEYS[1], 'back', 1)
  redis.call('HINCRBY', KEYS[1], 'seq', 1)
end
return redis.call('XDEL', KEYS[3], ARGV[3])`)

// buckets are the keys of all of them.
func (c *consumer) buckets() []admkey.Keys { return append([]admkey.Keys{c.keys}, c.others...) }

// take persists what is in the streams and returns how many entries there were. With
// reject, it rejects them.
func (c *consumer) take(ctx context.Context, reject bool) (sum int, err error) {
	for bucket, keys := range c.buckets() {
		n, err := c.takeFrom(ctx, bucket, keys, reject)
		if sum += n; err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (c *consumer) takeFrom(ctx context.Context, bucket int, of admkey.Keys, reject bool) (int, error) {
	entries, err := c.client.XRangeN(ctx, of.Orders, "-", "+", 1000).Result()
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		n := func(field string) int64 {
			v, err := strconv.ParseInt(fmt.Sprint(e.Values[field]), 10, 64)
			if err != nil {
				c.tb.Errorf("entry %v: %v", e, err)
			}
			return v
		}
		a := order.Accepted{VoucherID: c.shelf.voucher.ID, Bucket: bucket, OrderID: n("o"), UserID: n("u"), Epoch: n("e"), Seq: n("s")}
		if !reject && c.shelf.persist(a) == nil {
			if err := c.client.XDel(ctx, of.Orders, e.ID).Err(); err != nil {
				return 0, err
			}
			continue
		}
		c.shelf.mu.Lock()
		c.shelf.rejected[a.OrderID] = order.Order{ID: a.OrderID, UserID: a.UserID, Status: order.Rejected}
		c.shelf.mu.Unlock()
		keys := []string{of.Meta, of.Users, of.Orders}
		if err := giveBack.Run(ctx, c.client, keys, a.UserID, a.OrderID, e.ID).Err(); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

// run goes on taking until the returned function is called, which takes what is left.
func (c *consumer) run() (finish func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = c.take(ctx, false)
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		c.takeAll()
	}
}

func (c *consumer) takeAll() {
	for {
		n, err := c.take(context.Background(), false)
		if err != nil {
			c.tb.Errorf("consumer: %v", err)
		}
		if n == 0 {
			return
		}
	}
}

// stage is a voucher, its database and Redis.
type stage struct {
	*consumer
	t      testing.TB
	addr   string
	prefix string
	config Config
}

func newStage(t testing.TB, addr string, stock int64) *stage {
	t.Helper()
	s := &stage{t: t, addr: addr, prefix: testkit.KeyPrefix(t)}
	sh := newShelf(stock)
	client := dial(t, addr)
	s.consumer = &consumer{tb: t, client: client, shelf: sh, keys: admkey.Of(s.prefix, sh.voucher.ID, 0)}
	s.config = Config{
		Client: client, Shelf: sh, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: s.prefix,
	}
	return s
}

// split has the voucher in so many buckets. To be called before there is a gate.
func (s *stage) split(buckets int) {
	s.shelf.split(buckets)
	for bucket := 1; bucket < buckets; bucket++ {
		s.others = append(s.others, admkey.Of(s.config.Prefix, s.shelf.voucher.ID, bucket))
	}
}

func dial(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		PoolSize: 10_000, PipelinePoolSize: 10_000, // after as many failures to dial, go-redis does not try for a second
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// gate is one process. change may be nil.
func (s *stage) gate(change func(*Config)) *Gate {
	s.t.Helper()
	c := s.config
	if change != nil {
		change(&c)
	}
	g, err := New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = g.Close() })
	return g
}

// buy has a user order under an id.
func (s *stage) buy(g *Gate, user, id int64) error {
	return g.Admit(context.Background(), &s.shelf.voucher, order.Order{ID: id, UserID: user, VoucherID: s.shelf.voucher.ID})
}

// balanced checks that nothing was lost, sold twice or oversold, when all entries are
// taken.
func (s *stage) balanced(g *Gate, sold int64) {
	s.t.Helper()
	a, err := g.Audit(context.Background(), s.shelf.voucher.ID)
	if err != nil {
		s.t.Fatalf("Audit: %v", err)
	}
	st, orders := s.shelf.standing, int64(len(s.shelf.orders))
	if a.Pending != 0 || a.Stock != st.Stock || a.Stock+orders != s.shelf.voucher.InitialStock || orders != sold {
		s.t.Errorf("gate %+v, database %+v with %d orders of %d, want %d sold", a, st, orders, s.shelf.voucher.InitialStock, sold)
	}
}
