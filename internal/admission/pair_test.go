package admission

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/pairing"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A gate whose stores do not belong together accepts nothing, opens nothing and knows of no order.
func TestUnpairedGate(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	var broken atomic.Bool
	g := s.gate(func(c *Config) {
		c.Generation = func() (int64, error) {
			if broken.Load() {
				return 0, unavailable(pairing.ErrUnpaired)
			}
			return 0, nil
		}
	})
	fail.NowIf(t, s.buy(g, 1, 11)) // the voucher is open
	before := s.store.epochState.Epoch
	broken.Store(true)
	for what, err := range map[string]error{
		"Admit":    s.buy(g, 2, 21),
		"Lookup":   fail.Of(g.Lookup(t.Context(), 1, 11)),
		"OrderOf":  fail.Of(g.OrderOf(t.Context(), &s.store.voucher, 1)),
		"OrdersOf": fail.Of(g.OrdersOf(t.Context(), 1)),
		"Audit":    fail.Of(g.Audit(t.Context(), s.store.voucher.ID)),
	} {
		fail.Unless(t, err, pairing.ErrUnpaired, what)
		fail.Unless(t, err, order.ErrUnavailable, what)
	}
	fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta).Err())
	g.Check(t.Context())
	fail.Unequal(t, s.store.epochState.Epoch, before, "the voucher was opened: epoch")
}

// A process whose Redis is empty asks both stores before it rebuilds a voucher in it: it may be another Redis.
func TestOpeningAsksBothStores(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	var broken atomic.Bool
	g := s.gate(func(c *Config) {
		c.OpenWait = 50 * time.Millisecond
		c.Confirm = func(context.Context) error {
			if broken.Load() {
				return unavailable(pairing.ErrUnpaired)
			}
			return nil
		}
	})
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.NowIf(t, s.buy(g, 1, 11))
	s.takeAll()
	broken.Store(true)
	fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta, s.keys.Users).Err())
	fail.Unless(t, s.buy(g, 2, 21), order.ErrUnavailable, "an order")
	fail.Unequal(t, s.store.epochState.Epoch, 2, "the voucher was closed: epoch")
	broken.Store(false)
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.NowIf(t, s.buy(g, 2, 22))
	s.takeAll()
	s.balanced(g, 2)
}

// After the stores were paired anew a voucher is rebuilt from the database, although nothing else says that Redis or
// the database has lost data of it.
func TestNewGenerationRebuildsVouchers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	var generation atomic.Int64
	g := s.gate(func(c *Config) { c.Generation = func() (int64, error) { return generation.Load(), nil } })
	fail.NowIf(t, s.buy(g, 1, 11))
	s.takeAll()
	generation.Store(3)
	other := s.gate(func(c *Config) { c.Generation = func() (int64, error) { return 3, nil } })
	fail.NowIf(t, other.Open(t.Context(), &s.store.voucher))
	g.Check(t.Context())
	fail.NowIf(t, s.buy(g, 2, 21))
	if n := s.client.HGet(t.Context(), s.keys.Meta, ledger.FieldGeneration).Val(); n != "3" || s.store.epochState.Epoch != 4 {
		t.Errorf("generation %s, epoch %d", n, s.store.epochState.Epoch)
	}
	s.takeAll()
	s.balanced(g, 2)
}

// A process of an earlier generation has another database. It closes no bucket of a later one, and takes no entry out
// of it.
func TestBucketOfALaterGeneration(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(func(c *Config) { c.Generation = func() (int64, error) { return 3, nil } })
	fail.NowIf(t, s.buy(g, 1, 11))
	fail.NowIf(t, s.buy(g, 2, 21))
	entries := s.client.XRange(t.Context(), s.keys.Orders, "-", "+").Val()
	earlier := ledger.NewConsumers(func() int64 { return 2 })
	done := ledger.NewAcknowledgement(s.keys, s.keys.Meta+":done")
	done.Add(entries[0].ID, 1)
	_, dead := earlier.DeadLetter(t.Context(), s.client, &ledger.Rejection{Keys: s.keys, Entry: entries[0].ID, User: 1, Order: 11})
	for what, err := range map[string]error{
		"Close":       fail.Of(ledger.New(s.client, ledger.Options{Generation: func() int64 { return 2 }}).Close(t.Context(), s.keys, 99)),
		"Acknowledge": earlier.Acknowledge(t.Context(), s.client, done),
		"DeadLetter":  dead,
		"Split":       earlier.Split(t.Context(), s.client, s.keys, entries[0].ID),
	} {
		if err == nil || !strings.Contains(err.Error(), "UNPAIRED the bucket is of generation 3, the caller of 2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	fail.Unequal(t, s.client.XLen(t.Context(), s.keys.Orders).Val(), int64(len(entries)), "entries that are left")
	if err := s.buy(g, 2, 22); err != nil { // still open
		fail.Unless(t, err, order.ErrAlreadyOrdered, "a second order")
	}
}

// Redis compares what a pair replaces.
func TestPairInRedis(t *testing.T) {
	t.Parallel()
	client := dial(t, testkit.AnyRedis(t))
	p := ledger.NewPair(client, testkit.KeyPrefix(t))
	a, b := pairing.Record{Mark: "a", Partner: "db"}, pairing.Record{Generation: 1, Mark: "b", Partner: "db"}
	for _, step := range []struct {
		from, to pairing.Record
		moved    bool
	}{
		{b, a, false}, {pairing.Record{}, a, true}, {pairing.Record{}, a, true}, {pairing.Record{}, b, false}, {a, b, true}, {a, b, true}, {a, a, false},
	} {
		if moved, err := p.MovePair(t.Context(), step.from, step.to); err != nil || moved != step.moved {
			t.Errorf("%+v: %v, %v", step, moved, err)
		}
	}
	if now, err := p.Pair(t.Context()); err != nil || now != b {
		t.Errorf("%+v, %v", now, err)
	}
}
