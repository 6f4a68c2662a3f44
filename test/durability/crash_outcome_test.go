package durability

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// count queries the state of every order, as its buyer.
func (d *crashTest) count(persisted, held, waiting, last map[string]int) *outcomeCounts {
	d.t.Helper()
	f := &outcomeCounts{}
	for _, part := range []struct {
		orders map[string]int
		into   *orderCounts
	}{{persisted, &f.persisted}, {held, &f.unacknowledged}, {waiting, &f.waiting}, {last, &f.last}} {
		for order, user := range part.orders {
			part.into.accepted++
			switch status := d.sale.StatusOf(user%2, order, user); {
			case status == "confirmed":
			case status == "rejected":
				part.into.rejected++
			case strings.HasPrefix(status, "404"):
				part.into.gone++
			default:
				d.t.Errorf("order %s is %q", order, status)
			}
		}
	}
	return f
}

// outcomeCounts are the outcomes of the accepted orders, by where they were when Redis crashed: in the database, read
// by a worker and not acknowledged, waiting in Redis for a while, or accepted just before the crash (or after it).
type outcomeCounts struct{ persisted, unacknowledged, waiting, last orderCounts }

type orderCounts struct{ accepted, gone, rejected int }

func (f orderCounts) lost() int { return f.gone + f.rejected }

func (f orderCounts) String() string {
	return fmt.Sprintf("%d accepted, %d lost (%d not found, %d rejected)", f.accepted, f.lost(), f.gone, f.rejected)
}

func (f *outcomeCounts) String() string {
	return fmt.Sprintf("persisted: %v; unacknowledged: %v; waiting: %v; last: %v", f.persisted, f.unacknowledged, f.waiting, f.last)
}

// check compares what was lost with what the setting can lose. unread: so was the last order that has waited for long.
func (f *outcomeCounts) check(t *testing.T, setting redisSetting, unread bool) {
	t.Helper()
	if f.persisted.accepted != 100 || f.unacknowledged.accepted+f.waiting.accepted != 100 || f.last.accepted == 0 {
		t.Errorf("unexpected course of the sale: %v", f)
	}
	if f.persisted.lost() > 0 {
		t.Error("an order in the database was lost")
	}
	if f.unacknowledged.lost() > 0 && !setting.forgets {
		t.Errorf("%d unacknowledged orders were lost", f.unacknowledged.lost())
	}
	if lost := f.waiting.lost() > 0; lost && !setting.forgets || unread && !lost {
		t.Errorf("%d waiting orders were lost", f.waiting.lost())
	}
	if f.last.lost() > 0 != setting.loses {
		t.Errorf("%d of the last orders were lost", f.last.lost())
	}
}

// A key is lost with its order. A buyer who then repeats the request with the same Idempotency-Key gets one order,
// however often and through whichever process. If the buyer has ordered under another key in between, the answer is
// already_ordered.
func TestLostOrderUnderItsKey(t *testing.T) {
	t.Parallel()
	d := openCrashTest(t, testkit.NewMariaDB(t), redisSetting{name: "no AOF", loses: true, forgets: true})
	const buyers = 10
	key := func(user int) string { return "key-" + strconv.Itoa(user) }
	release := d.sale.HoldRow(d.where.DB)
	d.fillBatches(101)
	first := map[int]harness.Outcome{}
	for user := 1; user <= buyers; user++ {
		if first[user] = d.sale.BuyUntilAnswered(user, user, key(user)); first[user].Code != "accepted" {
			t.Fatalf("told %+v", first[user])
		}
	}
	before := d.epoch()
	d.crash()
	release()
	for user := 201; user <= 220; user++ {
		d.sale.Buy(user, user, "") // the loss is detected at the next order
	}
	d.waitUntilOpen(before)
	d.sale.Drained(d.primary.Client(t))
	for user, told := range first {
		if status := d.sale.StatusOf(user, told.Order, user); !strings.HasPrefix(status, "404") {
			t.Errorf("the lost order is %q", status)
		}
	}

	impatient := buyers
	fail.Unequal(t, d.sale.BuyUntilAnswered(1, impatient, "another").Code, "accepted", "under another key")
	for user := 1; user < impatient; user++ {
		if first[user] = d.sale.BuyUntilAnswered(user, user, key(user)); first[user].Code != "accepted" {
			t.Fatalf("told again %+v", first[user])
		}
	}
	first[impatient] = harness.Outcome{Code: "already_ordered"}
	for user, told := range first {
		var wg sync.WaitGroup
		for i := range 6 { // at once, through both processes
			wg.Go(func() {
				if again := d.sale.BuyUntilAnswered(i, user, key(user)); !harness.SameOrder(again, told) {
					t.Errorf("user %d was told %+v, then %+v", user, told, again)
				}
			})
		}
		wg.Wait()
		if again := d.sale.BuyUntilAnswered(user, user, key(user)); !harness.SameOrder(again, told) {
			t.Errorf("user %d was told %+v, and finally %+v", user, told, again)
		}
	}
	d.sale.Drained(d.primary.Client(t))
	for user, told := range first {
		if user == impatient {
			continue
		}
		fail.Unequal(t, d.sale.StatusOf(user, told.Order, user), "confirmed", "the order of user %d", user)
	}
	if a := d.sale.AtRest(0); !a.Balanced {
		t.Errorf("audit %+v", a)
	}
}
