package pressure

import (
	"database/sql"
	"strconv"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// One user sends one new Idempotency-Key after the other for a voucher that is sold out. That does not fill the
// database, and other users are served meanwhile.
func TestAFloodOfKeys(t *testing.T) {
	t.Parallel()
	where := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{testkit.NewRedis(t).Addr()}}
	p := harness.Start(t, where)
	for name, policy := range map[string]string{"locked": `{}`, "admission": harness.AdmissionPolicy} {
		t.Run(name, func(t *testing.T) {
			gone, open := harness.OpenSale(t, 1, policy, p), harness.OpenSale(t, 10_000, policy, p)
			if got := gone.BuyUntilAnswered(0, 1, "first"); got.Order == "" {
				t.Fatalf("the one unit: %+v", got)
			}
			const senders, each = 4, 250
			var flood sync.WaitGroup
			for sender := range senders {
				flood.Go(func() {
					for i := range each {
						gone.Buy(0, 666, name+strconv.Itoa(sender)+"-"+strconv.Itoa(i))
					}
				})
			}
			for user := range 20 {
				if got := open.BuyUntilAnswered(0, 1000+user, "key-"+strconv.Itoa(user)); got.Order == "" {
					t.Errorf("user %d: %+v", user, got)
				}
			}
			flood.Wait()

			keys, err := sql.Open("mysql", where.DB.DSN)
			fail.NowIf(t, err)
			defer keys.Close()
			var rows int64
			fail.NowIf(t, keys.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM idempotency_keys WHERE user_id = 666").Scan(&rows))
			t.Logf("%d keys sent, %d rows", senders*each, rows)
			// A few get as far as a decision, when somebody is let through to look again.
			if rows > senders*each/10 {
				t.Errorf("%d keys of requests that were refused left %d rows", senders*each, rows)
			}
			if got := gone.BuyUntilAnswered(0, 1, "first"); got.Order == "" {
				t.Errorf("the repetition of the one order that was placed: %+v", got)
			}
		})
	}
}
