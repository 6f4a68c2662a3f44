package admission

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// model is what the scripts must do, in Go.
type model struct {
	epoch, seq, stock, back int64
	dead                    int64
	from, to                time.Time
	users                   map[int64]order.Order
	pending                 []order.Order
	earlier                 []int64 // the orders of those that were told RepeatedUnderKey
}

func (m *model) state(now time.Time, o order.Order, bound int64) byte {
	has, ordered := m.users[o.UserID]
	switch {
	case ordered && has.ID == o.ID && has.Key == o.Key:
		return ledger.Repeated
	case ordered && has.Key == o.Key && o.Key != 0:
		m.earlier = append(m.earlier, has.ID)
		return ledger.RepeatedUnderKey
	case ordered:
		return 'o'
	case now.Before(m.from):
		return 'b'
	case !now.Before(m.to):
		return 'e'
	case m.stock <= 0:
		return 's'
	case int64(len(m.pending)) >= bound:
		return ledger.Overloaded
	}
	m.seq++
	m.stock--
	m.users[o.UserID] = o
	m.pending = append(m.pending, o)
	return ledger.Accepted
}

func TestScriptsFollowTheModel(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 0)
	server := ledger.New(s.client, ledger.Options{})
	id := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		id++ // a voucher of its own
		scriptMachine(t, rt, s, server, ledger.KeysOf(s.prefix, id, 0))
	})
}

// someKey is a key of an order, or none.
var someKey = rapid.SampledFrom([]order.KeyHash{0, 0, 1, -2})

func scriptMachine(t *testing.T, rt *rapid.T, s *fixture, server *ledger.Ledger, keys ledger.Keys) {
	ctx, now := t.Context(), time.Now()
	m := &model{users: map[int64]order.Order{}}
	open := func(rt *rapid.T) {
		m.epoch += 2
		m.seq = max(m.seq, rapid.Int64Range(0, 50).Draw(rt, "seq"))
		p := ledger.Opening{Epoch: m.epoch, Seq: m.seq, Stock: rapid.Int64Range(0, 8).Draw(rt, "stock")}
		m.from = now.Add(30*time.Minute + time.Duration(rapid.IntRange(-9, 1).Draw(rt, "begins"))*time.Hour)
		m.to = m.from.Add(time.Duration(rapid.IntRange(1, 20).Draw(rt, "lasts")) * time.Hour)
		p.Begin, p.End = window{m.from, m.to}.ms()
		if epoch, err := server.Close(ctx, keys, m.epoch-1); err != nil || epoch != m.epoch-1 {
			rt.Fatalf("Close = %d, %v; want %d", epoch, err, m.epoch-1)
		}
		if ok, err := server.Open(ctx, keys, ledger.Opening{Epoch: m.epoch - 2, Window: p.Window}); ok || err != nil {
			rt.Fatalf("opened under an epoch that is over: %v", err)
		}
		m.users = map[int64]order.Order{}
		var live []order.Order
		for user := range rapid.Int64Range(0, 3).Draw(rt, "live") {
			o := order.Order{ID: 900 + user, UserID: 1 + user, Key: someKey.Draw(rt, "key")}
			live = append(live, o)
			m.users[1+user] = o
		}
		if len(live) > 0 {
			fail.NowIf(rt, server.Prepare(ctx, []ledger.Users{{Key: keys.PreparedUsers(m.epoch), Orders: live}}))
			// Users of an epoch that is never opened expire.
			if ttl, err := s.client.TTL(ctx, keys.PreparedUsers(m.epoch)).Result(); err != nil || ttl <= 0 || ttl > ledger.PreparedFor {
				rt.Fatalf("the prepared users expire in %v, %v", ttl, err)
			}
		}
		p.Users = int64(len(live))
		if ok, err := server.Open(ctx, keys, p); !ok || err != nil {
			rt.Fatalf("Open = %v, %v", ok, err)
		}
		m.stock, m.back = p.Stock, 0
	}
	open(rt)
	ask := func(known ledger.Known, bound, expiry int64, batch []order.Order) ledger.Decision {
		c := batchOf(keys, known, batch...)
		c.MaxPending, c.Expiry, c.PerEntry = bound, expiry, rapid.IntRange(1, 4).Draw(rt, "orders per entry")
		a, err := server.Admit(ctx, c)
		fail.NowIf(rt, err)
		return a
	}
	someOrders := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) order.Order {
		user := rapid.Int64Range(1, 9).Draw(rt, "user")
		return order.Order{UserID: user, ID: user*10 + rapid.Int64Range(0, 1).Draw(rt, "which"), Key: someKey.Draw(rt, "key")}
	}), 1, 6)
	later := now.Add(time.Hour).UnixMilli()

	rt.Repeat(map[string]func(*rapid.T){
		"admit": func(rt *rapid.T) {
			batch, bound := someOrders.Draw(rt, "batch"), rapid.Int64Range(1, 6).Draw(rt, "bound")
			a := ask(ledger.Known{Epoch: m.epoch, Seq: m.seq, Returned: m.back}, bound, later, batch)
			var want strings.Builder
			m.earlier = nil
			for _, o := range batch {
				want.WriteByte(m.state(time.UnixMilli(a.Now), o, bound))
			}
			if a.Verdict != ledger.Decided || a.Outcomes != want.String() || !slices.Equal(a.Earlier, m.earlier) {
				rt.Fatalf("%v: %+v, want %s and %v", batch, a, want.String(), m.earlier)
			}
			// Every order of a call has the seq after the call, so whichever of them is persisted first says how much a
			// Redis that has the call has.
			left := strings.Count(a.Outcomes, "a")
			for _, e := range s.client.XRevRangeN(ctx, keys.Orders, "+", "-", 6).Val() {
				for _, one := range ledger.ParseEntry(e.ID, e.Values) {
					if left--; left >= 0 && one.Order.Seq != m.seq {
						rt.Fatalf("%+v of a call after which the seq is %d", one, m.seq)
					}
				}
			}
		},
		"admit under another epoch, after a loss, or late": func(rt *rapid.T) {
			batch := someOrders.Draw(rt, "batch")
			for _, c := range []struct {
				known  ledger.Known
				expiry int64
				want   ledger.Verdict
			}{
				{ledger.Known{Epoch: m.epoch - 2}, later, ledger.Closed},
				{ledger.Known{Epoch: m.epoch + 2}, later, ledger.Closed},
				{ledger.Known{Epoch: m.epoch, Seq: m.seq + 1}, later, ledger.DataLost},
				{ledger.Known{Epoch: m.epoch, Returned: m.back + 1}, later, ledger.DataLost},
				{ledger.Known{Epoch: m.epoch, Returned: m.back, User: 9999, Order: 1}, later, ledger.DataLost},
				{ledger.Known{Epoch: m.epoch}, now.Add(-time.Minute).UnixMilli(), ledger.Late},
			} {
				fail.NowUnequal(rt, ask(c.known, 100, c.expiry, batch).Verdict, c.want, "%+v: verdict", c.known)
			}
			s.client.HSet(ctx, keys.Meta, ledger.FieldBusy, 1) // a script stopped in its middle
			fail.NowUnequal(rt, ask(ledger.Known{Epoch: m.epoch}, 100, later, batch).Verdict, ledger.Torn, "the bucket is torn: verdict")
			s.client.HSet(ctx, keys.Meta, ledger.FieldBusy, 0)
		},
		"acknowledge": func(rt *rapid.T) {
			id, orders := oldest(ctx, rt, s, keys)
			fail.NowIf(rt, s.acknowledge(ctx, keys, id, len(orders)))
			for _, e := range orders {
				m.ended(rt, e.Order)
			}
			if err := s.acknowledge(ctx, keys, id, len(orders)); err != nil { // changes nothing
				rt.Fatal(err)
			}
		},
		"split": func(rt *rapid.T) {
			id, orders := oldest(ctx, rt, s, keys)
			length := s.client.XLen(ctx, keys.Orders).Val()
			for range 2 { // the second one changes nothing
				fail.NowIf(rt, scripts.Split(ctx, s.client, keys, id))
				fail.NowUnequal(rt, s.client.XLen(ctx, keys.Orders).Val(), length+int64(len(orders))-1, "entries, of %d before, one of which had %d orders", length, len(orders))
			}
			if len(orders) == 1 {
				return
			}
			last, err := s.client.XRevRangeN(ctx, keys.Orders, "+", "-", int64(len(orders))).Result()
			fail.NowIf(rt, err)
			for _, e := range last {
				alone := ledger.ParseEntry(e.ID, e.Values)
				if len(alone) != 1 || !slices.Contains(orders, alone[0]) {
					rt.Fatalf("%+v was split into %+v", orders, alone)
				}
			}
		},
		"give back": func(rt *rapid.T) {
			id, orders := oldest(ctx, rt, s, keys)
			if len(orders) != 1 {
				rt.Skip("the entry has several orders")
			}
			o := orders[0].Order
			m.ended(rt, o)
			m.dead++
			fail.NowIf(rt, s.giveBack(ctx, keys, id, o))
			if has := m.users[o.UserID]; has.ID == o.OrderID && has.Key == o.Key {
				delete(m.users, o.UserID)
				m.stock, m.back, m.seq = m.stock+1, m.back+1, m.seq+1
			}
		},
		"open again": open,
		"":           func(rt *rapid.T) { scriptInvariant(ctx, rt, s, server, keys, m) },
	})
}

// oldest returns the oldest entry that is pending, and its orders.
func oldest(ctx context.Context, rt *rapid.T, s *fixture, keys ledger.Keys) (id string, orders []ledger.Entry) {
	entries, err := s.client.XRangeN(ctx, keys.Orders, "-", "+", 1).Result()
	fail.NowIf(rt, err)
	if len(entries) == 0 {
		rt.Skip("no order is pending")
	}
	return entries[0].ID, ledger.ParseEntry(entries[0].ID, entries[0].Values)
}

// ended takes an order out of those that are pending.
func (m *model) ended(rt *rapid.T, a contract.Accepted) {
	i := slices.IndexFunc(m.pending, func(o order.Order) bool { return o.ID == a.OrderID && o.UserID == a.UserID && o.Key == a.Key })
	if i < 0 {
		rt.Fatalf("%+v is not pending", a)
	}
	m.pending = slices.Delete(m.pending, i, i+1)
}

func scriptInvariant(ctx context.Context, rt *rapid.T, s *fixture, server *ledger.Ledger, keys ledger.Keys, m *model) {
	got := server.State(ctx, keys)
	want := ledger.State{Now: got.Now, Heard: got.Heard, Pending: int64(len(m.pending)), Dead: m.dead, Epoch: m.epoch, Seq: m.seq, Stock: m.stock, Returned: m.back}
	want.Begin, want.End = window{m.from, m.to}.ms()
	if !reflect.DeepEqual(got, want) {
		rt.Fatalf("Redis has %+v, want %+v", got, want)
	}
	fail.NowUnequal(rt, s.client.HLen(ctx, keys.Users).Val(), int64(len(m.users)), "users")
}
