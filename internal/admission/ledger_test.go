package admission

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Orders are admitted, transfers given, taken, repeated, delayed or dropped, and reservations given back, in any order.
// Stock, stock in transit and accepted orders always add up to the initial stock.
func TestTransfersLoseNoStock(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 0)
	id := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		id++
		m := &ledgerMachine{rt: rt, s: s, server: ledger.New(s.client, ledger.Options{}), epoch: 2, seq: map[int]int64{}}
		for bucket := range rapid.IntRange(2, 4).Draw(rt, "buckets") {
			m.buckets = append(m.buckets, ledger.KeysOf(s.prefix, id, bucket))
		}
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "give": m.give, "take": m.take, "give back": m.giveBack,
			"under another epoch": m.stale, "open again": func(*rapid.T) { m.epoch += 2; m.open() }, "": m.check,
		})
		m.finish()
	})
}

type ledgerMachine struct {
	rt      *rapid.T
	s       *fixture
	server  *ledger.Ledger
	buckets []ledger.Keys
	epoch   int64

	initial, accepted int64
	users             int64
	transfers         []given // each may be taken any number of times
	seq               map[int]int64
}

type given struct {
	from, to int
	total    int64
	epoch    int64
}

func (m *ledgerMachine) open() {
	ctx, now := m.s.t.Context(), time.Now()
	m.initial, m.accepted = 0, 0
	for i, keys := range m.buckets {
		fail.NowIf(m.rt, fail.Of(m.server.Close(ctx, keys, m.epoch-1)))
		p := ledger.Opening{Epoch: m.epoch, Stock: rapid.Int64Range(0, 9).Draw(m.rt, "stock"), Window: ledger.Window{Begin: now.Add(-time.Hour).UnixMilli(), End: now.Add(time.Hour).UnixMilli()}}
		if ok, err := m.server.Open(ctx, keys, p); !ok || err != nil {
			m.rt.Fatalf("bucket %d: %v %v", i, ok, err)
		}
		m.initial += p.Stock
	}
}

func (m *ledgerMachine) bucket(rt *rapid.T, label string) int {
	return rapid.IntRange(0, len(m.buckets)-1).Draw(rt, label)
}

func (m *ledgerMachine) admit(rt *rapid.T) {
	var orders []order.Order
	bucket := m.buckets[m.bucket(rt, "bucket")]
	for range rapid.IntRange(1, 5).Draw(rt, "orders") {
		m.users++
		orders = append(orders, order.Order{ID: 1000 + m.users, UserID: m.users})
	}
	a, err := m.server.Admit(m.s.t.Context(), batchOf(bucket, ledger.Known{Epoch: m.epoch}, orders...))
	if err != nil || a.Verdict != ledger.Decided {
		rt.Fatalf("%+v, %v", a, err)
	}
	m.accepted += int64(strings.Count(a.Outcomes, "a"))
}

func (m *ledgerMachine) give(rt *rapid.T) {
	from, to := m.bucket(rt, "from"), m.bucket(rt, "to")
	if from == to {
		rt.Skip("to itself")
	}
	e, err := m.server.Give(m.s.t.Context(), m.buckets[from], m.epoch, to, rapid.Bool().Draw(rt, "more"))
	if err != nil || e.Verdict != ledger.Decided {
		rt.Fatalf("%+v, %v", e, err)
	}
	m.transfers = append(m.transfers, given{from, to, e.Amount, m.epoch})
}

func (m *ledgerMachine) take(rt *rapid.T) {
	if len(m.transfers) == 0 {
		rt.Skip("nothing was given")
	}
	g := rapid.SampledFrom(m.transfers).Draw(rt, "transfer")
	e, err := m.server.Take(m.s.t.Context(), m.buckets[g.to], g.epoch, g.from, g.total)
	if err != nil || (e.Verdict == ledger.Decided) != (g.epoch == m.epoch) || e.Amount < 0 {
		rt.Fatalf("%+v of %+v, %v", e, g, err)
	}
}

func (m *ledgerMachine) stale(rt *rapid.T) {
	i := m.bucket(rt, "bucket")
	for _, epoch := range []int64{m.epoch - 2, m.epoch - 1, m.epoch + 2} {
		if e, err := m.server.Give(m.s.t.Context(), m.buckets[i], epoch, 1, true); err != nil || e.Verdict != ledger.Closed {
			rt.Fatalf("give: %+v, %v", e, err)
		}
		if e, err := m.server.Take(m.s.t.Context(), m.buckets[i], epoch, 1, 100); err != nil || e.Verdict != ledger.Closed {
			rt.Fatalf("take: %+v, %v", e, err)
		}
	}
}

func (m *ledgerMachine) giveBack(rt *rapid.T) {
	ctx, keys := m.s.t.Context(), m.buckets[m.bucket(rt, "bucket")]
	entries, err := m.s.client.XRangeN(ctx, keys.Orders, "-", "+", 1).Result()
	if err != nil || len(entries) == 0 {
		rt.Skip("no order is pending")
	}
	a := ledger.ParseEntry(entries[0].ID, entries[0].Values)[0].Order
	had := m.s.client.HExists(ctx, keys.Users, strconv.FormatInt(a.UserID, 10)).Val() // not after it was opened anew
	fail.NowIf(rt, m.s.giveBack(ctx, keys, entries[0].ID, a))
	if had {
		m.accepted--
	}
}

func (m *ledgerMachine) check(rt *rapid.T) {
	all := m.server.States(m.s.t.Context(), m.buckets)
	fail.NowIf(rt, firstError(all))
	sum := m.accepted
	for i, s := range all {
		if s.Stock < 0 || s.Seq < m.seq[i] || s.Epoch != m.epoch {
			rt.Fatalf("bucket %d: %+v", i, s)
		}
		m.seq[i] = s.Seq
		sum += s.Share()
	}
	if sum != m.initial || receivedMore(all, all) {
		rt.Fatalf("%d accepted, %+v: %d in all, want %d", m.accepted, all, sum, m.initial)
	}
}

// finish finishes all transfers: then the stock of the buckets and the accepted orders add up.
func (m *ledgerMachine) finish() {
	ctx := m.s.t.Context()
	for _, g := range m.transfers {
		fail.NowIf(m.rt, fail.Of(m.server.Take(ctx, m.buckets[g.to], g.epoch, g.from, g.total)))
	}
	sum := m.accepted
	for _, s := range m.server.States(ctx, m.buckets) {
		sum += s.Stock
	}
	fail.NowUnequal(m.rt, sum, m.initial, "accepted and in stock")
}

// A bucket that says it gave less than the other one received has lost data. That the two are read one after the other
// must not look like that.
func TestLostTransferIsDetected(t *testing.T) {
	t.Parallel()
	giver, taker := ledger.State{Epoch: 2, To: map[int]int64{1: 5}}, ledger.State{Epoch: 2, From: map[int]int64{0: 5}}
	older, newer := ledger.State{Epoch: 2, To: map[int]int64{1: 3}}, ledger.State{Epoch: 4}
	for name, c := range map[string]struct {
		givers, takers []ledger.State
		want           bool
	}{
		"complete":                 {[]ledger.State{giver, taker}, []ledger.State{giver, taker}, false},
		"in transit":               {[]ledger.State{giver, {Epoch: 2}}, []ledger.State{giver, {Epoch: 2}}, false},
		"less given than received": {[]ledger.State{older, taker}, []ledger.State{older, taker}, true},
		"given after the reading":  {[]ledger.State{giver, taker}, []ledger.State{older, taker}, false},
		"opened again in between":  {[]ledger.State{newer, taker}, []ledger.State{older, taker}, false},
		"the giver did not answer": {[]ledger.State{{Err: errLate}, taker}, []ledger.State{giver, taker}, false},
		"no such bucket":           {[]ledger.State{taker}, []ledger.State{{Epoch: 2, From: map[int]int64{9: 1}}}, false},
	} {
		fail.Unequal(t, receivedMore(c.givers, c.takers), c.want, "%s", name)
	}
}

func TestCheckDetectsALostTransfer(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 20)
	s.split(2)
	g := s.gate(nil)
	for _, user := range usersOf(15, 2, func(b int) bool { return b == 1 }) {
		fail.NowIf(t, s.buy(g, user, 100+user))
	}
	s.takeAll()
	g.Check(t.Context())
	fail.NowUnequal(t, s.store.epochState.Epoch, 2, "closed without a reason: epoch")
	// Bucket 0 is as it was before it gave, and has seen as much as anybody knows of.
	seq := s.client.HGet(t.Context(), s.keys.Meta, ledger.FieldSeq).Val()
	if seq == "0" {
		t.Fatal("nothing was given")
	}
	fail.NowIf(t, s.client.HSet(t.Context(), s.keys.Meta, ledger.FieldTo+"1", 0, ledger.FieldStock, 10).Err())
	g.Check(t.Context())
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.Unequal(t, s.store.epochState.Epoch, 4, "epoch")
	s.balanced(g, 15)
}
