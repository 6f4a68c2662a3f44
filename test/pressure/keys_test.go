package pressure

import (
	"database/sql"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestAFloodOfKeys: one user sends one new Idempotency-Key after the other for a voucher that is sold out. That
// neither fills the database nor slows down other users' orders.
func TestAFloodOfKeys(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"locked": `{}`, "admission": harness.AdmissionPolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{testkit.Redis(t).Addr()}}
			p := harness.Start(t, where)
			gone, open := harness.OpenSale(t, 1, policy, p), harness.OpenSale(t, 10_000, policy, p)
			if got := gone.BuyUntilAnswered(0, 1, "first"); got.Order == "" {
				t.Fatalf("the one piece: %+v", got)
			}
			quiet := medianOf(open, 1000, 200)

			var stop atomic.Bool
			var sent atomic.Int64
			var flood sync.WaitGroup
			for sender := range 4 {
				flood.Go(func() {
					for i := 0; !stop.Load() && i < 5000; i++ {
						gone.Buy(0, 666, strconv.Itoa(sender)+"-"+strconv.Itoa(i))
						sent.Add(1)
					}
				})
			}
			busy := medianOf(open, 2000, 200)
			testkit.Until(t, "3,000 keys are sent", func() bool { return sent.Load() >= 3000 })
			stop.Store(true)
			flood.Wait()

			keys, err := sql.Open("mysql", where.DB.DSN)
			if err != nil {
				t.Fatal(err)
			}
			defer keys.Close()
			var rows int64
			if err := keys.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM idempotency_keys WHERE user_id = 666").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d keys sent, %d rows; others' median %v before, %v meanwhile", sent.Load(), rows, quiet, busy)
			// A few get as far as a decision, when somebody is let through to look again.
			if rows > sent.Load()/10 || rows > 1000 {
				t.Errorf("%d keys of requests that were refused left %d rows", sent.Load(), rows)
			}
			if got := gone.BuyUntilAnswered(0, 1, "first"); got.Order == "" {
				t.Errorf("the repetition of the one order that was placed: %+v", got)
			}
		})
	}
}

// medianOf is the median time until an order is answered, of n users one after the other.
func medianOf(s *harness.Sale, first, n int) time.Duration {
	s.T.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		begun := time.Now()
		if got := s.BuyUntilAnswered(0, first+i, "key-"+strconv.Itoa(first+i)); got.Order == "" {
			s.T.Errorf("user %d: %+v", first+i, got)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[n/2]
}

// TestAFloodOfLookUps: the look-ups of a user are limited, and other users are not affected.
func TestAFloodOfLookUps(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.NewStores(t).With("SECKILL_USER_LOOKUPS=0.01"))
	ask := func(user string) int {
		status, _ := harness.Call(t, http.MethodGet, p.URL+"/api/v1/orders/77", http.Header{"X-User-Id": {user}}, "")
		return status
	}
	if first, second := ask("1"), ask("1"); first != http.StatusNotFound || second != http.StatusTooManyRequests {
		t.Errorf("two look-ups at a limit of one in 100 s: %d, %d; want 404, 429", first, second)
	}
	if got := ask("2"); got != http.StatusNotFound {
		t.Errorf("another user's look-up: %d, want 404", got)
	}
}
