package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"seckill/internal/testkit"
)

// count asks for every order, as its buyer, what became of it.
func (d *dying) count(persisted, held, waiting, last map[string]int) *fates {
	d.t.Helper()
	f := &fates{}
	for _, part := range []struct {
		orders map[string]int
		into   *fate
	}{{persisted, &f.persisted}, {held, &f.held}, {waiting, &f.waiting}, {last, &f.last}} {
		for order, user := range part.orders {
			part.into.promised++
			switch status := d.shop.statusOf(user%2, order, user); {
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

// fates are what became of the orders that buyers were promised: of those that were in
// the database when Redis died, of those that the workers had in their hands, of those
// that had waited in Redis for a while, and of the last ones before the death (or after
// it).
type fates struct{ persisted, held, waiting, last fate }

type fate struct{ promised, gone, rejected int }

func (f fate) lost() int { return f.gone + f.rejected }

func (f fate) String() string {
	return fmt.Sprintf("%d promised, %d lost (%d not found, %d rejected)", f.promised, f.lost(), f.gone, f.rejected)
}

func (f *fates) String() string {
	return fmt.Sprintf("persisted: %v; in hand: %v; waiting: %v; last: %v", f.persisted, f.held, f.waiting, f.last)
}

// judge compares what was lost with what the setting can lose.
func (f *fates) judge(t *testing.T, setting redisSetting) {
	t.Helper()
	if f.persisted.promised != 100 || f.held.promised+f.waiting.promised != 100 || f.last.promised == 0 {
		t.Errorf("the sale went another way: %v", f)
	}
	if f.persisted.lost() > 0 {
		t.Error("an order was lost that was in the database")
	}
	if f.held.lost() > 0 && !setting.forgets {
		t.Errorf("of those in hand %d were lost", f.held.lost())
	}
	if f.waiting.lost() > 0 != setting.forgets {
		t.Errorf("of those that waited %d were lost", f.waiting.lost())
	}
	if f.last.lost() > 0 != setting.loses {
		t.Errorf("of the last %d were lost", f.last.lost())
	}
}

// A buyer whose order is lost and who repeats his request under its Idempotency-Key gets
// it again, under the same id, however often and through whichever process he repeats. If
// he has bought under another key in between, that is what he is told.
func TestLostOrderUnderItsKey(t *testing.T) {
	d := openDying(t, testkit.NewMariaDB(t), redisSetting{name: "no AOF", loses: true, forgets: true})
	const buyers = 10
	key := func(user int) string { return "key-" + strconv.Itoa(user) }
	release := d.holdRow()
	d.fillHands(101)
	first := map[int]outcome{}
	for user := 1; user <= buyers; user++ {
		if first[user] = d.shop.buy(user, user, key(user)); first[user].code != "accepted" {
			t.Fatalf("told %+v", first[user])
		}
	}
	before := d.epoch()
	d.die()
	release()
	for user := 201; user <= 220; user++ {
		d.shop.buy(user, user, "") // somebody has to ask for it to be found out
	}
	d.goesOn(before)
	d.shop.drained(d.primary.Client(t))
	for user, told := range first {
		if status := d.shop.statusOf(user, told.order, user); !strings.HasPrefix(status, "404") {
			t.Errorf("the lost order is %q", status)
		}
	}

	impatient := buyers
	if other := d.shop.buy(1, impatient, "another"); other.code != "accepted" {
		t.Errorf("under another key: %+v", other)
	}
	first[impatient] = outcome{code: "already_ordered"}
	for user, told := range first {
		var wg sync.WaitGroup
		for i := range 6 { // at once, through both processes
			wg.Go(func() {
				if again := d.shop.buy(i, user, key(user)); again != told && again.code != "busy" {
					t.Errorf("user %d was told %+v, then %+v", user, told, again)
				}
			})
		}
		wg.Wait()
		if again := d.shop.buy(user, user, key(user)); again != told {
			t.Errorf("user %d was told %+v, and in the end %+v", user, told, again)
		}
	}
	d.shop.drained(d.primary.Client(t))
	for user, told := range first {
		if user == impatient {
			continue
		}
		if status := d.shop.statusOf(user, told.order, user); status != "confirmed" {
			t.Errorf("the order of user %d is %q", user, status)
		}
	}
	if a := d.shop.atRest(0); !a.Balanced {
		t.Errorf("audit %+v", a)
	}
}
