package explore

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"net"
	"regexp"
	"slices"
	"strings"

	"seckill/internal/eventlog"
	"seckill/internal/lock"
)

// process is one process with one buyer: its lock, its connections, and how far it has come.
type process struct {
	number int
	label  string // its name in events
	locker lock.Locker
	rec    *eventlog.Recorder
	close  func()
	cancel context.CancelFunc
	ctx    context.Context

	work *queue        // the holder's work
	gate chan struct{} // a step lets the work go on
	done chan struct{} // closed when the buyer is done

	// Guarded by bed.mu.
	started, finished, dead, paused bool

	wires   []*wire
	dialled []*wire // without a number
	queues  []*queue
	// sendsScript says that the server does not have the script of the last request, which follows.
	sendsScript bool
	held        lock.Lease // while the buyer is inside
	refused     error
	answered    bool // the server has carried out the release, whatever it found
	digest      hash.Hash
	ids         []string // random names that the process has made up, in the order of their appearance
}

func (b *bed) newProcess(number int) (*process, error) {
	p := &process{number: number, label: fmt.Sprintf("api-%d", number), gate: make(chan struct{}, 1), done: make(chan struct{}), digest: newHash()}
	p.work = &queue{action: Work, proc: p}
	p.queues = []*queue{p.work}
	p.rec = eventlog.NewFuncRecorder(p.label, func(e eventlog.Event) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !p.dead && !b.open {
			b.events = append(b.events, happened{e, len(b.steps)})
			b.notice(p)
		}
		return nil
	})
	l, closeLock, err := b.config.Open(b.clients(b.connect, p))
	if err != nil {
		return nil, err
	}
	p.locker = recorded(b.config.Lock, l, p.rec, number%2 == 0)
	p.ctx, p.cancel = context.WithCancel(eventlog.WithWho(lock.WithOwner(context.Background(), lock.Owner(p.name())), fmt.Sprintf("buyer %d", number)))
	p.close = func() { _ = p.rec.Close(); closeLock() }
	return p, nil
}

// recorded records the use of a lock. Where it has readers, every other buyer is one.
func recorded(name string, l lock.Locker, rec *eventlog.Recorder, reader bool) lock.Locker {
	rw, ok := l.(readWrite)
	if !ok {
		return eventlog.Locker(name, struct{ lock.Locker }{l}, rec) // without Inspect: that would be a step
	}
	l = eventlog.Locker(name, uninspected{rw}, rec)
	if both, ok := l.(readWrite); ok && reader {
		return both.Reader()
	}
	return l
}

type readWrite interface {
	lock.Locker
	lock.Inspector
	lock.ForceReleaser
	Reader() lock.Locker
}

// uninspected is a read-write lock that does not ask the server who holds it.
type uninspected struct{ readWrite }

// Inspect implements [lock.Inspector].
func (uninspected) Inspect(context.Context, string) (lock.State, error) {
	return lock.State{}, errors.ErrUnsupported
}

// name is how the process is called in steps, and what its buyer is called as an owner.
func (p *process) name() string { return fmt.Sprintf("P%d", p.number) }

// atWork reports whether the buyer has come and is not done.
func (p *process) atWork() bool { return p.started && !p.finished && !p.dead }

// waiting returns what is to be delivered of the process, the oldest first.
func (p *process) waiting() []*queue {
	var all []*queue
	for _, q := range p.queues {
		if q.waiting() {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(x, y *queue) int { return x.items[0].seq - y.items[0].seq })
	return all
}

// begin lets the buyer come.
func (p *process) begin(b *bed) {
	b.mu.Lock()
	p.started = true
	b.mu.Unlock()
	go p.buy(b)
}

// buy is what a buyer does: under the lock it reads the stock, then works, which takes a step, and writes the stock less
// one, unless it was told meanwhile that the lock is lost.
func (p *process) buy(b *bed) {
	defer close(p.done)
	defer func() {
		b.mu.Lock()
		p.finished, p.held = true, nil
		b.notice(p)
		b.mu.Unlock()
	}()
	held, err := p.locker.Acquire(p.ctx, key, lock.Options{TTL: b.ttl(), Wait: b.patience()})
	if err != nil {
		b.mu.Lock()
		p.refused = err
		b.mu.Unlock()
		return
	}
	const voucher = 1
	record := func(e eventlog.Event) {
		e.Voucher, e.User, e.Tx = voucher, int64(p.number), int64(p.number)
		p.rec.Record(p.ctx, e)
	}
	mode := eventlog.ModeUnguarded
	if b.mechanism.Fenced {
		mode = eventlog.ModeFenced
	}
	b.mu.Lock()
	stock, version := b.stock, b.version
	p.held = held
	p.work.items = append(p.work.items, item{})
	b.mu.Unlock()
	record(eventlog.Event{Kind: eventlog.Begun})
	record(eventlog.Event{Kind: eventlog.Read, Stock: stock, Version: version})
	select {
	case <-p.gate:
	case <-p.ctx.Done():
		return
	}
	if held.Context().Err() == nil {
		b.mu.Lock()
		refused := held.Token() < b.token
		if !refused {
			b.stock, b.version, b.token = stock-1, b.version+1, held.Token()
		}
		p.held = nil
		b.mu.Unlock()
		if refused {
			record(eventlog.Event{Kind: eventlog.RolledBack, Error: "a newer token has written"})
		} else {
			record(eventlog.Event{Kind: eventlog.Write, Mode: mode, Stock: stock - 1, Version: version})
			record(eventlog.Event{Kind: eventlog.Committed})
		}
	} else {
		record(eventlog.Event{Kind: eventlog.RolledBack, Error: context.Cause(held.Context()).Error()})
	}
	p.answered = !errors.Is(lock.Release(p.ctx, held), lock.ErrUnavailable)
}

// die ends the process: it does and hears nothing more. What it has sent still arrives.
func (p *process) die(b *bed) {
	b.mu.Lock()
	p.dead = true
	p.work.drop()
	var open []net.Conn
	for _, w := range slices.Concat(p.wires, p.dialled) {
		w.clientClosed = true
		w.replies.drop()
		w.fresh[1] = nil
		if len(w.requests.items) == 0 {
			_ = w.toServer.Close()
		}
		open = append(open, w.toClient)
	}
	b.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the goroutines of the process end with their connections
	}
	p.cancel()
}

// remember adds to the digest of what the process has gone through: what it has sent and was told, and when.
func (p *process) remember(b *bed, q *queue, data []byte) {
	if q.action == Request {
		p.learnNames(data)
	}
	fmt.Fprintln(p.digest, b.now(), string(q.action), q.conn(), b.tidy(string(data)))
}

// A name that lock.NewOwners makes up, in a value.
var madeUp = regexp.MustCompile(`[A-Z2-7]{26}`)

func (p *process) learnNames(data []byte) {
	for _, name := range madeUp.FindAllString(string(data), -1) {
		if !slices.Contains(p.ids, name) {
			p.ids = append(p.ids, name)
		}
	}
}

// tidy replaces the random names in a text by numbers, so that two runs have the same texts.
func (b *bed) tidy(text string) string {
	for _, p := range b.procs {
		for i, name := range p.ids {
			if strings.Contains(text, name) {
				text = strings.ReplaceAll(text, name, fmt.Sprintf("#%d.%d", p.number, i+1))
			}
		}
	}
	return text
}
