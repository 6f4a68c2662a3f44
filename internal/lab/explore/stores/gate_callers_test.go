package stores

import (
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// call is one call of a caller. If its reply is not heard, the caller makes the same call again.
type call func(g *gate, w *world, c *caller, heard bool)

// program is what a caller does, call by call.
type program []call

// buys asks for an order, and once more if the bucket was opened anew meanwhile.
func buys(n int) program {
	o := gateOrders[n]
	return program{
		func(g *gate, w *world, c *caller, heard bool) {
			b := ledger.NewBatch(1)
			b.Keys, b.Known, b.MaxPending, b.Expiry = g.buckets[o.bucket], ledger.Known{Epoch: c.epoch}, 100, far
			b.Add(&o.user, &o.id, 0)
			d, err := g.ledger.Admit(g.t.Context(), b)
			fail.NowIf(g.t, err)
			switch {
			case !heard:
			case d.Verdict == ledger.Closed:
				c.next = 1
			default:
				w.told[n] = d.HasOrder()
				c.next = -1
			}
		},
		func(g *gate, _ *world, c *caller, heard bool) {
			s := g.ledger.State(g.t.Context(), g.buckets[o.bucket])
			switch {
			case !heard:
			case s.Open() && s.Epoch > c.epoch:
				c.next, c.epoch = 0, s.Epoch
			default:
				c.next = -1
			}
		},
	}
}

// works persists one entry of a bucket and acknowledges it.
func works(bucket int) program {
	return program{
		func(g *gate, w *world, c *caller, _ bool) {
			c.order, c.entry, c.again = g.persist(w, bucket)
			c.next = 1
			if c.order < 0 {
				c.next = -1
			}
		},
		func(g *gate, _ *world, c *caller, heard bool) {
			g.finish(bucket, c.order, c.entry, c.again)
			if heard {
				c.next = -1
			}
		},
	}
}

// cancels cancels an order that the database has, and tells Redis. Its buyer may have learnt of it from the database.
func cancels(n int) program {
	o := gateOrders[n]
	return program{
		func(_ *gate, w *world, c *caller, _ bool) {
			if w.state[n] != live {
				c.next = -1
				return
			}
			w.state[n] = cancelled
			w.returned[o.bucket]++
			c.next, c.epoch, c.total = 1, w.epoch-w.epoch%2, w.returned[o.bucket]
		},
		func(g *gate, _ *world, c *caller, heard bool) {
			_, err := g.ledger.Return(g.t.Context(), g.buckets[o.bucket], contract.Return{
				Epoch: c.epoch, Total: c.total, Orders: []contract.ReturnedOrder{{Order: order.Order{ID: o.id, UserID: o.user}}},
			})
			fail.NowIf(g.t, err)
			if heard {
				c.next = -1
			}
		},
	}
}

// transfers has bucket 0 give to bucket 1.
func transfers() program {
	return program{
		func(g *gate, _ *world, c *caller, heard bool) {
			given, err := g.ledger.Give(g.t.Context(), g.buckets[0], c.epoch, 1, true)
			fail.NowIf(g.t, err)
			switch {
			case !heard:
			case given.Verdict == ledger.Closed:
				c.next = -1
			default:
				c.next, c.total = 1, given.Amount
			}
		},
		func(g *gate, _ *world, c *caller, heard bool) {
			fail.NowIf(g.t, fail.Of(g.ledger.Take(g.t.Context(), g.buckets[1], c.epoch, 0, c.total)))
			if heard {
				c.next = -1
			}
		},
	}
}

// closesLate is a call to close a bucket that was sent long ago.
func closesLate() program {
	return program{func(g *gate, w *world, c *caller, _ bool) {
		if w.epoch > 2 { // before that, nobody had sent it
			fail.NowIf(g.t, fail.Of(g.ledger.Close(g.t.Context(), g.buckets[0], 3)))
		}
		c.next = -1
	}}
}

// reopens closes the voucher, persists what is pending, and opens it with what the database has.
func reopens() program {
	closing := func(bucket int) call {
		return func(g *gate, w *world, c *caller, heard bool) {
			w.epoch = max(w.epoch, 3) // the database first
			fail.NowIf(g.t, fail.Of(g.ledger.Close(g.t.Context(), g.buckets[bucket], 3)))
			if heard {
				c.next++
			}
		}
	}
	draining := func(bucket int) call {
		return func(g *gate, w *world, c *caller, _ bool) {
			n, entry, again := g.persist(w, bucket)
			if n < 0 {
				c.next++
				return
			}
			g.finish(bucket, n, entry, again)
		}
	}
	opening := func(bucket int) call {
		return func(g *gate, _ *world, c *caller, heard bool) {
			fail.NowIf(g.t, fail.Of(g.ledger.Open(g.t.Context(), g.buckets[bucket], ledger.Opening{
				Epoch: 4, Stock: c.stock[bucket], Users: int64(c.users[bucket]), Window: ledger.Window{End: far},
			})))
			if heard {
				c.next++
				if c.next == 7 {
					c.next = -1
				}
			}
		}
	}
	prepare := func(g *gate, w *world, c *caller, _ bool) {
		w.epoch, w.returned = 4, [2]int64{}
		left, users := g.units, [2]ledger.Users{}
		for n, o := range gateOrders {
			if w.state[n] == live {
				left--
				users[o.bucket].Orders = append(users[o.bucket].Orders, order.Order{ID: o.id, UserID: o.user})
			}
		}
		c.stock = [2]int64{(left + 1) / 2, left / 2}
		for b := range users {
			if c.users[b] = len(users[b].Orders); c.users[b] > 0 {
				users[b].Key = g.buckets[b].PreparedUsers(4)
				fail.NowIf(g.t, g.ledger.Prepare(g.t.Context(), users[b:b+1]))
			}
		}
		c.next++
	}
	return program{closing(0), closing(1), draining(0), draining(1), prepare, opening(0), opening(1)}
}
