package loadtest

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The prefix of the service's keys in Redis.
const keyPrefix = "seckill:"

// BenchmarkFastPath measures the admission flow and prints one table at the end. make bench runs it.
func BenchmarkFastPath(b *testing.B) {
	needWrk(b)
	s := newShop(b)
	t := &table{}
	measure := func(name string, run func(*testing.B) row) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t.add(s.around(b, run))
			}
			b.ReportMetric(0, "ns/op") // a measurement has a fixed length
		})
	}
	measure("accepted", s.accepted)
	measure("persisted", s.persisted)
	measure("sold-out", s.soldOut)
	measure("latency/accepted", s.latencyAccepted)
	measure("latency/persisted", s.latencyPersisted)
	measure("memory", s.memory)
	measure("users", s.users)
	measure("keys", s.keys)
	measure("paid", s.paid)
	if !*quick {
		measure("calls", s.calls)
		measure("buckets", s.buckets)
		measure("aof", s.aof)
	}
	t.print(b)
}

// benchService is the service with its servers, and the results so far.
type benchService struct {
	api   service
	redis *redis.Client
	pool  *sql.DB
	dsn   string
	bare  string               // URL of the yardstick of accepted orders
	user  int                  // the next user: no user orders twice
	own   *prometheus.Registry // this process's own metrics

	// The greatest rates, in orders/s, once they were measured.
	acceptedRate, persistedRate float64

	lastBare bare // the end of the row before
}

func newShop(b *testing.B) *benchService {
	b.Helper()
	database := testkit.NewMariaDB(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M").Database(b)
	server := testkit.NewRedis(b)
	s := &benchService{api: startAPI(b, database.DSN, server.Addr(), "SECKILL_LOG_LEVEL=warn"), redis: server.Client(b), dsn: database.DSN, user: 1, own: prometheus.NewRegistry()}
	s.own.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.pool = open(b, database.DSN)
	s.bare = serveBare(b, http.StatusAccepted, s.api.answer(b, s.sell(b, plenty).url, s.user, http.StatusAccepted, "pending"))
	return s
}

// sale is a voucher on sale by admission.
type sale struct {
	*benchService
	id   string
	url  string
	keys []ledger.Keys // of each bucket

	stock int64
}

func (s *benchService) sell(b *testing.B, stock int64) *sale { return s.sellFrom(b, 1, stock) }

// sellFrom creates a voucher with a number of buckets.
func (s *benchService) sellFrom(b *testing.B, buckets int, stock int64) *sale {
	b.Helper()
	id := s.api.sell(b, time.Now(), map[string]any{
		"stock": stock, "policy": map[string]any{"flow": "admission", "buckets": buckets},
	})
	number, err := strconv.ParseInt(id, 10, 64)
	fail.NowIf(b, err)
	v := &sale{benchService: s, id: id, url: s.api.url + "/api/v1/vouchers/" + id + "/orders", stock: stock}
	for bucket := range buckets {
		v.keys = append(v.keys, ledger.KeysOf(keyPrefix, number, bucket))
	}
	return v
}

const plenty = voucher.MaxStock

// rush sends orders of new users for the length of a window.
func (s *benchService) rush(b *testing.B, url string, env ...string) load {
	b.Helper()
	sent := wrk(b, url, s.user, env...)
	s.user += sent.requests + connections // a request may have had no answer yet
	return sent
}

// sold counts the accepted orders.
func (s *sale) sold(b *testing.B) int64 {
	b.Helper()
	sold := s.stock
	for _, keys := range s.keys {
		left, err := s.redis.HGet(b.Context(), keys.Meta, ledger.FieldStock).Int64()
		fail.NowIf(b, err)
		sold -= left
	}
	return sold
}

// inFlight counts the orders that are accepted and not persisted.
func (s *sale) inFlight(b *testing.B) (n int64) {
	b.Helper()
	for _, keys := range s.keys {
		there, err := s.redis.XLen(b.Context(), keys.Orders).Result()
		fail.NowIf(b, err)
		n += there
	}
	return n
}

// discard deletes the orders in flight.
func (s *sale) discard(ctx context.Context) error {
	for _, keys := range s.keys {
		if err := s.redis.XTrimMaxLen(ctx, keys.Orders, 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// drained waits until every accepted order is persisted.
func (s *sale) drained(b *testing.B) {
	b.Helper()
	for s.inFlight(b) > 0 {
		pause(b, time.Millisecond)
	}
	if accepted, orders := s.sold(b), ordersOf(b, s.pool, s.id); accepted != orders {
		b.Fatalf("accepted %d orders, the database has %d", accepted, orders)
	}
}

// withoutPersisting calls fn while the service may not read its streams: the server denies it, so fn measures admission
// alone. The orders accepted meanwhile are deleted, so that the backlog stays below its limit.
func (s *benchService) withoutPersisting(b *testing.B, fn func(), sales ...*sale) {
	b.Helper()
	s.allow(b, "-xreadgroup", "-xautoclaim")
	defer s.allow(b, "+xreadgroup", "+xautoclaim")
	discard := func() (err error) {
		for _, v := range sales {
			err = errors.Join(err, v.discard(b.Context()))
		}
		return err
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			err = discard()
		}
		ended <- err
	}()
	fn()
	cancel()
	fail.NowIf(b, errors.Join(<-ended, discard()))
}

func (s *benchService) allow(b *testing.B, rules ...string) {
	b.Helper()
	fail.NowIf(b, s.redis.ACLSetUser(b.Context(), "default", rules...).Err())
}

func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}
