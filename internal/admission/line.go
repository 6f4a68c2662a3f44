package admission

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// overdueAfter is how long a queue waits before its buyers are asked to look after
// their own contexts: longer than a round trip in good times, shorter than anybody
// notices.
const overdueAfter = 10 * time.Millisecond

// line is where the orders of one bucket of a voucher wait for the next round trip.
type line struct {
	gate   *Gate
	pool   *pool
	bucket int
	keys   admkey.Keys
	marks
	// silent is until when draws do not ask the bucket, on the gate's clock, as it did
	// not answer; 0 after it did.
	silent atomic.Int64

	mu      sync.Mutex
	queue   []*ride // nil in the place of one who left
	first   int64   // the ticket of queue[0]
	spare   []*ride // what queue was before the batch under way
	working bool    // a goroutine sees to the queue
	known   seen    // the epoch is 0 while the bucket is shut
	// overdue: the batch under way, or the opening, takes long. alarm sets it, when the
	// queue has not been empty for overdueAfter.
	overdue bool
	alarm   *time.Timer
}

func newLine(p *pool, bucket int) *line {
	l := &line{
		gate: p.gate, pool: p, bucket: bucket, keys: admkey.Of(p.gate.config.Prefix, p.id, bucket),
		marks: marks{end: p.sale.to.UnixMilli()},
	}
	l.alarm = time.AfterFunc(time.Hour, l.sound)
	l.alarm.Stop()
	return l
}

// ride is one order on its way. The fields below done are the line's from join until
// the ride is answered, or has left.
type ride struct {
	ctx             context.Context
	userID, orderID int64
	asked           time.Duration // when, on the gate's clock
	done            chan error    // has room for errOverdue and the answer

	sent   bool
	told   bool // errOverdue
	ticket int64
}

// rides are those that may be used again.
type rides struct{ pool sync.Pool }

func (p *rides) get(ctx context.Context, o order.Order) *ride {
	r, used := p.pool.Get().(*ride)
	if !used {
		r = &ride{done: make(chan error, 2)}
	}
	r.ctx, r.userID, r.orderID, r.sent, r.told = ctx, o.UserID, o.ID, false, false
	return r
}

// put takes a ride back that was answered, and whose answer was received, or that left.
func (p *rides) put(r *ride) {
	r.ctx = nil
	p.pool.Put(r)
}

// errOverdue is no answer: it asks whoever waits to look after his own context.
var errOverdue = errors.New("the queue does not move")

// take has a ride decided about, and returns the answer.
//
// To wait for a context costs more than all of the rest: that of a request sets a timer
// only when somebody first waits for it. So nobody does as long as the queue moves. When
// it has not for a moment, all who are in it are told, and whoever comes after them;
// from then on they leave as soon as their contexts end.
func (l *line) take(r *ride) error {
	if !l.join(r) {
		if err := <-r.done; !errors.Is(err, errOverdue) {
			return err
		}
	}
	select {
	case err := <-r.done:
		return err
	case <-r.ctx.Done():
		if l.leave(r) {
			return r.ctx.Err()
		}
		return <-r.done
	}
}

// join puts a ride in the line, and says whether it is to look after its own context.
// If nobody is at work there, it goes at once.
func (l *line) join(r *ride) (overdue bool) {
	l.mu.Lock()
	r.ticket = l.first + int64(len(l.queue))
	l.queue = append(l.queue, r)
	overdue = l.overdue
	r.told = overdue
	idle := !l.working
	l.working = true
	if !idle && !overdue && len(l.queue) == 1 {
		l.alarm.Reset(overdueAfter)
	}
	l.mu.Unlock()
	if idle && !l.gate.spawn(l.work) {
		l.refuse(unavailable(errClosed))
	}
	return overdue
}

// leave takes a ride out of the queue, unless it is on its way.
func (l *line) leave(r *ride) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.ticket < l.first {
		return false
	}
	l.queue[r.ticket-l.first] = nil
	return true
}

// sound tells those who are in the queue that it does not move.
func (l *line) sound() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return // it moved just now
	}
	l.overdue = true
	for _, r := range l.queue {
		if r != nil && !r.told {
			r.told = true
			r.done <- errOverdue
		}
	}
}

// work decides about one batch after the other, until nobody waits.
func (l *line) work() {
	for {
		// Whoever is about to join joins this batch: a round trip costs the same for one
		// as for many. Where nothing else is to be run, this returns at once.
		runtime.Gosched()
		batch, left := l.next()
		if !left {
			return
		}
		if len(batch) == 0 { // who waits for the door can still leave
			if _, err := l.opened(context.Background(), l.gate.config.OpenWait); err != nil {
				l.answerQueued(unavailable(err))
			}
			continue
		}
		l.gate.config.Observer.queued(l.gate.now() - batch[0].asked)
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

// next returns the next batch, which is empty while the bucket is shut. Where nobody is
// left, it ends the work.
func (l *line) next() (batch []*ride, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(batch) == 0 { // but for those who left
		l.overdue = false
		if len(l.queue) == 0 {
			l.working = false
			return nil, false
		}
		if l.known.epoch == 0 {
			l.alarm.Reset(overdueAfter)
			return nil, true
		}
		batch = l.queue
		l.queue, l.spare = l.spare, nil
		if len(batch) > MaxBatch {
			l.queue = append(l.queue, batch[MaxBatch:]...)
			clear(batch[MaxBatch:])
			batch = batch[:MaxBatch]
			l.alarm.Reset(overdueAfter)
		}
		l.first += int64(len(batch))
		batch = slices.DeleteFunc(batch, func(r *ride) bool { return r == nil })
	}
	return batch, true
}

// answerQueued gives all who wait the same answer.
func (l *line) answerQueued(err error) {
	l.mu.Lock()
	waiting := slices.DeleteFunc(slices.Clone(l.queue), func(r *ride) bool { return r == nil })
	l.first += int64(len(l.queue))
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

// board has the ride sent, unless its buyer has gone, who is then answered.
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

// recall is the opposite of board, where nothing was done about any of a batch.
func recall(batch []*ride) {
	for _, r := range batch {
		r.sent = false
	}
}

func answerAll(batch []*ride, err error) {
	for _, r := range batch {
		if r.board() {
			r.done <- err
		}
	}
}
