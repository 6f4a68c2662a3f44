package admission

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// line is where the orders of one voucher wait for the next round trip.
type line struct {
	gate *Gate
	id   int64
	keys admkey.Keys
	sale window
	marks

	mu      sync.Mutex
	queue   []*ride
	spare   []*ride // what queue was before the batch under way
	working bool    // a goroutine sees to the queue
	door    door
}

func newLine(g *Gate, v *voucher.Voucher) *line {
	return &line{
		gate: g, id: v.ID, keys: admkey.Of(g.config.Prefix, v.ID, 0),
		sale:  window{from: v.BeginAt, to: v.EndAt},
		marks: marks{end: v.EndAt.UnixMilli()},
	}
}

// ride is one order on its way. But for done it is the line's from join until it is
// answered, and nobody's after that.
type ride struct {
	ctx             context.Context
	userID, orderID int64
	sent            bool
	done            chan error // has room for the answer
}

// rides are those that may be used again.
type rides struct{ pool sync.Pool }

func (p *rides) get(ctx context.Context, o order.Order) *ride {
	r, used := p.pool.Get().(*ride)
	if !used {
		r = &ride{done: make(chan error, 1)}
	}
	r.ctx, r.userID, r.orderID, r.sent = ctx, o.UserID, o.ID, false
	return r
}

// put takes a ride back that was answered, and whose answer was received.
func (p *rides) put(r *ride) {
	r.ctx = nil
	p.pool.Put(r)
}

// board has the ride sent, unless its buyer has gone, who is then answered.
//
// Who goes while he waits is noticed here, and not when it happens: to be told would
// cost each buyer more than all of the waiting does, and a batch that others wait for
// ends within [Config.Patience].
func (r *ride) board() bool {
	if !r.sent {
		if err := r.ctx.Err(); err != nil {
			r.done <- err
			return false
		}
		r.sent = true
	}
	return true
}

// join puts a ride in the line. If nobody is at work there, it goes at once.
func (l *line) join(r *ride) {
	l.mu.Lock()
	l.queue = append(l.queue, r)
	idle := !l.working
	l.working = true
	l.mu.Unlock()
	if idle && !l.gate.spawn(l.work) {
		l.refuse(unavailable(errClosed))
	}
}

// work decides about one batch after the other, until nobody waits.
func (l *line) work() {
	for {
		// Whoever is about to join joins this batch: a round trip costs the same for one
		// as for many. Where nothing else is to be run, this returns at once.
		runtime.Gosched()
		batch := l.take()
		if batch == nil {
			return
		}
		if err := l.decide(batch); err != nil {
			// Who waits behind them has waited as long, for the same.
			l.answerQueued(err)
		}
		clear(batch)
		l.mu.Lock()
		l.spare = batch[:0]
		l.mu.Unlock()
	}
}

// take returns the next batch, or nil and ends the work.
func (l *line) take() []*ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.working = false
		return nil
	}
	batch := l.queue
	l.queue, l.spare = l.spare, nil
	if len(batch) > MaxBatch {
		l.queue = append(l.queue, batch[MaxBatch:]...)
		clear(batch[MaxBatch:])
		batch = batch[:MaxBatch]
	}
	return batch
}

// answerQueued gives all who wait the same answer.
func (l *line) answerQueued(err error) {
	l.mu.Lock()
	waiting := slices.Clone(l.queue)
	clear(l.queue)
	l.queue = l.queue[:0]
	l.mu.Unlock()
	answerAll(waiting, err)
}

// refuse ends the work before it has begun.
func (l *line) refuse(err error) {
	for {
		l.answerQueued(err)
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.working = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

func answerAll(batch []*ride, err error) {
	for _, r := range batch {
		if r.board() {
			r.done <- err
		}
	}
}
