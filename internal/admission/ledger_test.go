package admission

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// Whatever is admitted, given, taken in, given back, repeated, delayed or dropped, in any
// order: what is in the buckets, in transit and accepted is what there was.
func TestNothingIsLostBetweenBuckets(t *testing.T) {
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, testkit.Redis(t).Addr(), 0)
	id := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		id++
		m := &ledgerMachine{rt: rt, s: s, server: newServer(s.client), epoch: 2, seq: map[int]int64{}}
		for bucket := range rapid.IntRange(2, 4).Draw(rt, "buckets") {
			m.buckets = append(m.buckets, admkey.Of(s.prefix, id, bucket))
		}
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "give": m.give, "take": m.take, "give back": m.giveBack,
			"under another epoch": m.stale, "open anew": func(*rapid.T) { m.epoch += 2; m.open() }, "": m.check,
		})
		m.finish()
	})
}

type ledgerMachine struct {
	rt      *rapid.T
	s       *stage
	server  *server
	buckets []admkey.Keys
	epoch   int64

	initial, accepted int64
	users             int64
	gifts             []gift // in the order given; each may be taken in any number of times
	seq               map[int]int64
}

type gift struct {
	from, to int
	total    int64
	epoch    int64
}

func (m *ledgerMachine) open() {
	ctx, now := m.s.t.Context(), time.Now()
	m.initial, m.accepted = 0, 0
	for i, keys := range m.buckets {
		if _, err := m.server.shut(ctx, keys, m.epoch-1); err != nil {
			m.rt.Fatal(err)
		}
		p := part{epoch: m.epoch, stock: rapid.Int64Range(0, 9).Draw(m.rt, "stock"), sale: window{now.Add(-time.Hour), now.Add(time.Hour)}}
		if ok, err := m.server.begin(ctx, keys, p); !ok || err != nil {
			m.rt.Fatalf("bucket %d: %v %v", i, ok, err)
		}
		m.initial += p.stock
	}
}

func (m *ledgerMachine) bucket(rt *rapid.T, label string) int {
	return rapid.IntRange(0, len(m.buckets)-1).Draw(rt, label)
}

func (m *ledgerMachine) admit(rt *rapid.T) {
	c := &call{keys: m.buckets[m.bucket(rt, "bucket")], seen: seen{epoch: m.epoch}, bound: 1000, expiry: time.Now().Add(time.Hour).UnixMilli()}
	for range rapid.IntRange(1, 5).Draw(rt, "orders") {
		m.users++
		c.batch = append(c.batch, new(rides).get(m.s.t.Context(), order.Order{ID: 1000 + m.users, UserID: m.users}))
	}
	a, err := m.server.decide(m.s.t.Context(), c)
	if err != nil || a.verdict != decided {
		rt.Fatalf("%+v, %v", a, err)
	}
	m.accepted += int64(strings.Count(a.states, "a"))
}

func (m *ledgerMachine) give(rt *rapid.T) {
	from, to := m.bucket(rt, "from"), m.bucket(rt, "to")
	if from == to {
		rt.Skip("to itself")
	}
	e, err := m.server.give(m.s.t.Context(), m.buckets[from], m.epoch, to, rapid.Bool().Draw(rt, "more"))
	if err != nil || e.verdict != decided {
		rt.Fatalf("%+v, %v", e, err)
	}
	m.gifts = append(m.gifts, gift{from, to, e.amount, m.epoch})
}

func (m *ledgerMachine) take(rt *rapid.T) {
	if len(m.gifts) == 0 {
		rt.Skip("nothing was given")
	}
	g := rapid.SampledFrom(m.gifts).Draw(rt, "gift")
	e, err := m.server.take(m.s.t.Context(), m.buckets[g.to], g.epoch, g.from, g.total)
	if err != nil || (e.verdict == decided) != (g.epoch == m.epoch) || e.amount < 0 {
		rt.Fatalf("%+v of %+v, %v", e, g, err)
	}
}

func (m *ledgerMachine) stale(rt *rapid.T) {
	i := m.bucket(rt, "bucket")
	for _, epoch := range []int64{m.epoch - 2, m.epoch - 1, m.epoch + 2} {
		if e, err := m.server.give(m.s.t.Context(), m.buckets[i], epoch, 1, true); err != nil || e.verdict != closed {
			rt.Fatalf("give: %+v, %v", e, err)
		}
		if e, err := m.server.take(m.s.t.Context(), m.buckets[i], epoch, 1, 100); err != nil || e.verdict != closed {
			rt.Fatalf("take: %+v, %v", e, err)
		}
	}
}

func (m *ledgerMachine) giveBack(rt *rapid.T) {
	ctx, keys := m.s.t.Context(), m.buckets[m.bucket(rt, "bucket")]
	entries, err := m.s.client.XRangeN(ctx, keys.Orders, "-", "+", 1).Result()
	if err != nil || len(entries) == 0 {
		rt.Skip("nothing is on its way")
	}
	e := entries[0].Values
	had := m.s.client.HExists(ctx, keys.Users, e["u"].(string)).Val() // not after it was opened anew
	if err := giveBack.Run(ctx, m.s.client, []string{keys.Meta, keys.Users, keys.Orders}, e["u"], e["o"], entries[0].ID).Err(); err != nil {
		rt.Fatal(err)
	}
	if had {
		m.accepted--
	}
}

func (m *ledgerMachine) check(rt *rapid.T) {
	all := m.server.states(m.s.t.Context(), m.buckets)
	if err := unknown(all); err != nil {
		rt.Fatal(err)
	}
	sum := m.accepted
	for i, s := range all {
		if s.stock < 0 || s.seq < m.seq[i] || s.epoch != m.epoch {
			rt.Fatalf("bucket %d: %+v", i, s)
		}
		m.seq[i] = s.seq
		sum += s.share()
	}
	if sum != m.initial || lessGiven(all, all) {
		rt.Fatalf("%d accepted, %+v: %d in all, want %d", m.accepted, all, sum, m.initial)
	}
}

// finish takes in all that is in transit: then the stocks alone make up the rest.
func (m *ledgerMachine) finish() {
	ctx := m.s.t.Context()
	for _, g := range m.gifts {
		if _, err := m.server.take(ctx, m.buckets[g.to], g.epoch, g.from, g.total); err != nil {
			m.rt.Fatal(err)
		}
	}
	sum := m.accepted
	for _, s := range m.server.states(ctx, m.buckets) {
		sum += s.stock
	}
	if sum != m.initial {
		m.rt.Fatalf("%d accepted and in stock, want %d", sum, m.initial)
	}
}

// A bucket that knows less of what it gave than the other one took in has forgotten it.
// That the two are looked at one after the other is no reason to think so.
func TestForgottenGiftIsFound(t *testing.T) {
	giver, taker := state{epoch: 2, to: map[int]int64{1: 5}}, state{epoch: 2, from: map[int]int64{0: 5}}
	older, newer := state{epoch: 2, to: map[int]int64{1: 3}}, state{epoch: 4}
	for name, c := range map[string]struct {
		givers, takers []state
		want           bool
	}{
		"all is there":              {[]state{giver, taker}, []state{giver, taker}, false},
		"in transit":                {[]state{giver, {epoch: 2}}, []state{giver, {epoch: 2}}, false},
		"less given than taken":     {[]state{older, taker}, []state{older, taker}, true},
		"given later than looked":   {[]state{giver, taker}, []state{older, taker}, false},
		"opened anew in between":    {[]state{newer, taker}, []state{older, taker}, false},
		"the giver did not answer":  {[]state{{err: errLate}, taker}, []state{giver, taker}, false},
		"a bucket there is not any": {[]state{taker}, []state{{epoch: 2, from: map[int]int64{9: 1}}}, false},
	} {
		if got := lessGiven(c.givers, c.takers); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCheckFindsAForgottenGift(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 20)
	s.split(2)
	g := s.gate(nil)
	for _, user := range usersOf(15, 2, func(b int) bool { return b == 1 }) {
		if err := s.buy(g, user, 100+user); err != nil {
			t.Fatal(err)
		}
	}
	s.takeAll()
	g.Check(t.Context())
	if epoch := s.shelf.standing.Epoch; epoch != 2 {
		t.Fatalf("epoch %d: closed for nothing", epoch)
	}
	// Bucket 0 is as it was before it gave, and has seen as much as anybody knows of.
	seq := s.client.HGet(t.Context(), s.keys.Meta, admkey.Seq).Val()
	if seq == "0" {
		t.Fatal("nothing was given")
	}
	if err := s.client.HSet(t.Context(), s.keys.Meta, admkey.To+"1", 0, admkey.Stock, 10).Err(); err != nil {
		t.Fatal(err)
	}
	g.Check(t.Context())
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	if epoch := s.shelf.standing.Epoch; epoch != 4 {
		t.Errorf("epoch %d, want 4", epoch)
	}
	s.balanced(g, 15)
}

// Where replicas are waited for, nothing is taken in that they do not know to be given.
func TestGiftIsAcknowledgedBeforeItIsTakenIn(t *testing.T) {
	r := newReplicated(t, 20)
	r.split(2)
	// Redis looks ten times a second whether a WAIT is over.
	r.config.AttemptTimeout, r.config.Patience = 500*time.Millisecond, 3*time.Second
	g := r.process()
	users := usersOf(15, 2, func(b int) bool { return b == 1 })
	for _, user := range users[:10] {
		if err := r.buy(g, user, 100+user); err != nil {
			t.Fatal(err)
		}
	}
	r.replica.Pause()
	if err := r.buy(g, users[10], 100+users[10]); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("without the replica: %v", err)
	}
	all := newServer(r.client).states(t.Context(), r.buckets())
	if all[0].to[1] != 5 || all[1].from[0] != 0 || all[1].stock != 0 {
		t.Errorf("given %d, taken in %d: want 5 and, as nobody has acknowledged it, 0", all[0].to[1], all[1].from[0])
	}
	r.replica.Resume()
	for _, user := range users[10:] {
		if err := r.buy(g, user, 100+user); err != nil {
			t.Errorf("with it again: %v", err)
		}
	}
	if moved := newServer(r.client).states(t.Context(), r.buckets())[1].from[0]; moved != 5 {
		t.Errorf("%d taken in, want 5", moved)
	}
	r.takeAll()
	r.balanced(g, 15)
}
