package stores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// gate is one voucher in two buckets of a Redis in this process, with the real scripts.
type gate struct {
	t         *testing.T
	mini      *miniredis.Miniredis
	client    *redis.Client
	ledger    *ledger.Ledger
	consumers *ledger.Consumers
	buckets   [2]ledger.Keys
	units     int64
	seen      map[string]int // how many ways lead on from a state
	calls     int
}

// firstCall is when the first call is made, by the server's clock; each takes a millisecond.
var firstCall = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The orders of the callers: two of one user, and one of another user in the other bucket.
var gateOrders = [3]struct {
	id, user int64
	bucket   int
}{{10, 1, 0}, {11, 1, 0}, {20, 2, 1}}

// What the database has of an order.
const (
	absent = iota
	live
	cancelled
	rejected
)

// far is a time in ms that does not come.
const far = 1 << 50

// world is all that there is besides Redis: the database, and how far each caller is. It is copied as a whole.
type world struct {
	epoch    int64
	state    [3]int   // of the orders
	since    [3]int64 // when the orders that the database has were accepted, in ms
	told     [3]bool  // which orders a buyer was told are accepted
	returned [2]int64 // what orders of each bucket gave back in the epoch
	callers  [3]caller
	lost     int // how many replies may still be lost
}

type caller struct {
	next  int // its next call; -1: none
	epoch int64
	total int64
	order int // of the entry that it persisted; -1: none
	entry string
	again bool // its unit is to be given back
	stock [2]int64
	users [2]int
}

// row is an order as the database has it.
func (w *world) row(n int) order.Order {
	status := map[int]order.Status{live: order.Unpaid, cancelled: order.Cancelled, rejected: order.Rejected}[w.state[n]]
	return order.Order{ID: gateOrders[n].id, Status: status, CreatedAt: time.UnixMilli(w.since[n])}
}

// persist writes the order of a bucket's first entry into the database, as the worker does: not one of an epoch that is
// over. again says that its unit is to be given back, since the order was accepted a second time after it had been
// cancelled.
func (g *gate) persist(w *world, bucket int) (n int, entry string, again bool) {
	entries, err := g.client.XRangeN(g.t.Context(), g.buckets[bucket].Orders, "-", "+", 1).Result()
	fail.NowIf(g.t, err)
	if len(entries) == 0 {
		return -1, "", false
	}
	a := ledger.ParseEntry(entries[0].ID, entries[0].Values)[0]
	fail.NowIf(g.t, a.Err)
	n = orderOf(a.Order.OrderID)
	if w.state[n] == absent {
		w.state[n], w.since[n] = live, a.Order.At.UnixMilli()
		if w.epoch > a.Order.Epoch+1 || w.sold() > g.units || w.sold() != w.buyers() {
			w.state[n] = rejected
		}
	}
	return n, entries[0].ID, !a.Order.PersistedAs(w.row(n))
}

// finish takes an entry out of its stream, as the worker does.
func (g *gate) finish(bucket, n int, entry string, again bool) {
	if again {
		o := gateOrders[n]
		fail.NowIf(g.t, fail.Of(g.consumers.DeadLetter(g.t.Context(), g.client, &ledger.Rejection{
			Keys: g.buckets[bucket], Channel: "done", Entry: entry, User: o.user, Order: o.id,
		})))
		g.mini.Del(g.buckets[bucket].Dead)
		return
	}
	a := ledger.NewAcknowledgement(g.buckets[bucket], "done")
	a.Add(entry, 1)
	fail.NowIf(g.t, g.consumers.Acknowledge(g.t.Context(), g.client, a))
}

func orderOf(id int64) int {
	for n, o := range gateOrders {
		if o.id == id {
			return n
		}
	}
	panic(fmt.Sprint("no order ", id))
}

// sold and buyers count the live orders and their users.
func (w *world) sold() (n int64) {
	for _, s := range w.state {
		if s == live {
			n++
		}
	}
	return n
}

func (w *world) buyers() int64 {
	users := map[int64]bool{}
	for n, s := range w.state {
		if s == live {
			users[gateOrders[n].user] = true
		}
	}
	return int64(len(users))
}

// stored is what Redis has, for going back to it.
type stored map[string][]string

func (g *gate) store() stored {
	all := stored{}
	for _, key := range g.mini.Keys() {
		if strings.HasSuffix(key, ":orders") {
			entries, _ := g.mini.Stream(key)
			for _, e := range entries {
				all[key] = append(all[key], append([]string{e.ID}, e.Values...)...)
			}
			continue
		}
		fields, _ := g.mini.HKeys(key)
		slices.Sort(fields)
		for _, f := range fields {
			all[key] = append(all[key], f, g.mini.HGet(key, f))
		}
	}
	return all
}

// entryLength is how many strings of a stored stream one entry has: its id, and the four fields of an entry with one
// order.
const entryLength = 9

func (g *gate) restore(all stored) {
	for _, key := range g.mini.Keys() {
		g.mini.Del(key)
	}
	for key, values := range all {
		if !strings.HasSuffix(key, ":orders") {
			g.mini.HSet(key, values...)
			continue
		}
		for e := range slices.Chunk(values, entryLength) {
			fail.NowIf(g.t, fail.Of(g.mini.XAdd(key, e[0], e[1:])))
		}
	}
}

// key names a state, in which the ids of entries mean nothing.
func (s stored) key(w world) string {
	for i := range w.callers {
		w.callers[i].entry = ""
	}
	since := w.since
	w.since = [3]int64{}
	var b strings.Builder
	fmt.Fprint(&b, w)
	for _, key := range slices.Sorted(maps.Keys(s)) {
		values := s[key]
		if strings.HasSuffix(key, ":orders") {
			values = slices.Clone(values)
			for i := 0; i < len(values); i += entryLength {
				a := parsed(values[i : i+entryLength]).Order
				values[i] = fmt.Sprint(a.At.UnixMilli() == since[orderOf(a.OrderID)])
			}
		}
		fmt.Fprint(&b, key, values)
	}
	return b.String()
}

// from explores what follows a state, and returns how many interleavings there are.
func (g *gate) from(w world, programs [3]program, taken []string) int {
	before := g.store()
	key := before.key(w)
	if n, known := g.seen[key]; known {
		return n
	}
	if wrong := g.check(w, before, false); wrong != "" {
		g.t.Fatalf("%s, after\n%s\n%+v\n%v", wrong, strings.Join(taken, "\n"), w, before)
	}
	n, over := 0, true
	for i, p := range programs {
		if w.callers[i].next < 0 {
			continue
		}
		over = false
		for _, heard := range []bool{true, false} {
			if !heard && w.lost == 0 {
				break
			}
			next := w
			if !heard {
				next.lost--
			}
			g.restore(before)
			at := next.callers[i].next
			g.mini.SetTime(firstCall.Add(time.Duration(g.calls) * time.Millisecond))
			p[at](g, &next, &next.callers[i], heard)
			g.calls++
			if !heard && next.callers[i] != w.callers[i] {
				continue // a step of the database alone, which loses no reply
			}
			n += g.from(next, programs, append(slices.Clip(taken), fmt.Sprintf("caller %d, call %d, heard %v", i+1, at+1, heard)))
		}
	}
	if over {
		n = 1
		g.restore(before)
		for bucket := range g.buckets { // what is pending is persisted
			for {
				of, entry, again := g.persist(&w, bucket)
				if of < 0 {
					break
				}
				g.finish(bucket, of, entry, again)
			}
		}
		for i := range gateOrders {
			if w.told[i] && w.state[i] != live && w.state[i] != cancelled {
				g.t.Fatalf("order %d was accepted and is lost, after\n%s\n%+v", gateOrders[i].id, strings.Join(taken, "\n"), w)
			}
		}
		if wrong := g.check(w, g.store(), true); wrong != "" {
			g.t.Fatalf("at the end %s, after\n%s\n%+v", wrong, strings.Join(taken, "\n"), w)
		}
	}
	g.seen[key] = n
	return n
}

// check compares what is sold and what is left with what there was, and looks for a user with two orders.
func (g *gate) check(w world, now stored, over bool) string {
	sum, open := w.sold(), true
	after := w // the pending orders are persisted
	for b, keys := range g.buckets {
		n := now.numbers(keys.Meta)
		open = open && n[ledger.FieldEpoch] == w.epoch && n[ledger.FieldBusy] == 0
		sum += n[ledger.FieldStock] + w.returned[b] - n[ledger.FieldArrived]
		other := fmt.Sprint(1 - b)
		sum += n[ledger.FieldTo+other] - n[ledger.FieldFrom+other] // what is in transit
		for e := range slices.Chunk(now[keys.Orders], entryLength) {
			a := parsed(e).Order
			switch n := orderOf(a.OrderID); {
			case after.state[n] == absent:
				after.state[n], after.since[n] = live, a.At.UnixMilli()
				sum++
			case !a.PersistedAs(after.row(n)): // its unit comes back
				sum++
			}
		}
	}
	switch {
	case slices.Contains(w.state[:], rejected):
		return "an accepted order was refused by the database"
	case after.sold() != after.buyers():
		return "a user has two orders"
	case over && !open:
		return "a bucket is not open"
	case open && w.epoch%2 == 0 && sum != g.units:
		return fmt.Sprintf("%d units are sold, left or on their way, and there were %d", sum, g.units)
	}
	return ""
}

// numbers returns the fields of a hash that are numbers.
func (s stored) numbers(key string) map[string]int64 {
	all := map[string]int64{}
	for f := range slices.Chunk(s[key], 2) {
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			all[f[0]] = n
		}
	}
	return all
}

// parsed reads an entry of a stored stream.
func parsed(e []string) ledger.Entry {
	fields := map[string]any{}
	for f := range slices.Chunk(e[1:], 2) {
		fields[f[0]] = f[1]
	}
	return ledger.ParseEntry(e[0], fields)[0]
}

// Three callers make their calls in every order, and a reply is lost, after which the caller makes the call again. The
// stock adds up, no user has two orders, and no order that was accepted is lost.
func TestGateInEveryOrder(t *testing.T) {
	t.Parallel()
	server := simulate.NewRedis(t)
	client := server.Client(t)
	table := []string{"callers                           units  interleavings  states   calls"}
	for _, c := range []struct {
		name     string
		units    int64
		programs [3]program
	}{
		{"buy, buy again, work", 2, [3]program{buys(0), buys(1), works(0)}},
		{"buy, transfer, buy elsewhere", 2, [3]program{buys(0), transfers(), buys(2)}},
		{"buy, work, cancel", 1, [3]program{buys(0), works(0), cancels(0)}},
		{"buy, cancel, reopen", 1, [3]program{buys(0), cancels(0), reopens()}},
		{"buy, transfer, reopen", 2, [3]program{buys(0), transfers(), reopens()}},
		{"buy, buy elsewhere, reopen", 1, [3]program{buys(0), buys(2), reopens()}},
		{"cancel, buy again, reopen", 1, [3]program{cancels(0), buys(1), reopens()}},
		{"buy, close late, reopen", 1, [3]program{buys(0), closesLate(), reopens()}},
	} {
		g := &gate{
			t: t, mini: server.Mini(), client: client, ledger: ledger.New(client, ledger.Options{}),
			consumers: ledger.NewConsumers(func() int64 { return 0 }), seen: map[string]int{}, units: c.units,
		}
		w := g.opened(t.Context(), c.name == "cancel, buy again, reopen")
		n := g.from(w, c.programs, nil)
		table = append(table, fmt.Sprintf("%-32s  %5d  %13d  %6d  %6d", c.name, c.units, n, len(g.seen), g.calls))
	}
	t.Logf("every call in every order, with up to %d lost reply\n%s", maxLost, strings.Join(table, "\n"))
}

const maxLost = 1

// opened opens both buckets under epoch 2, with all units in the first one. With ordered, order 10 is persisted.
func (g *gate) opened(ctx context.Context, ordered bool) world {
	g.restore(nil)
	w := world{epoch: 2, lost: maxLost}
	for i := range w.callers {
		w.callers[i] = caller{epoch: 2, order: -1}
	}
	stock := [2]int64{g.units, 0}
	users := int64(0)
	for b := range g.buckets {
		g.buckets[b] = ledger.KeysOf("", 7, b)
		fail.NowIf(g.t, fail.Of(g.ledger.Close(ctx, g.buckets[b], 1)))
	}
	if ordered {
		o := gateOrders[0]
		w.state[0], users = live, 1
		stock[0]--
		fail.NowIf(g.t, g.ledger.Prepare(ctx, []ledger.Users{{Key: g.buckets[0].PreparedUsers(2), Orders: []order.Order{{ID: o.id, UserID: o.user}}}}))
	}
	for b, keys := range g.buckets {
		fail.NowIf(g.t, fail.Of(g.ledger.Open(ctx, keys, ledger.Opening{Epoch: 2, Stock: stock[b], Users: users, Window: ledger.Window{End: far}})))
		users = 0
	}
	return w
}
