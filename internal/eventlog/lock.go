package eventlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"seckill/internal/lock"
)

// inspectTimeout bounds the question who holds the key, which precedes each release.
const inspectTimeout = 200 * time.Millisecond

// Locker returns a locker that works as l and records its use under the name of a mechanism. If l has a method Reader,
// so has the result.
//
// Before each release it asks an l that is a [lock.Inspector] who holds the key: the answer shows whether the holder
// had lost the lock to somebody else. That costs one round trip, and at most 200 ms.
func Locker(name string, l lock.Locker, rec *Recorder) lock.Locker {
	inspector, _ := l.(lock.Inspector)
	side := func(of lock.Locker, shared bool) lock.Locker {
		r := &locker{inner: of, inspector: inspector, name: name, rec: rec, shared: shared}
		return lock.Decorate(of, r.acquire)
	}
	if rw, ok := l.(readWrite); ok {
		return &writer{side(l, false), rw, rw, func() lock.Locker { return side(rw.Reader(), true) }}
	}
	return side(l, false)
}

type locker struct {
	inner     lock.Locker
	inspector lock.Inspector // nil if the mechanism cannot be inspected
	name      string
	rec       *Recorder
	shared    bool
}

// readWrite is a locker with a side for readers.
type readWrite interface {
	lock.Inspector
	lock.ForceReleaser
	Reader() lock.Locker
}

// writer is the writers' side of a read-write lock.
type writer struct {
	lock.Locker
	lock.Inspector
	lock.ForceReleaser
	reader func() lock.Locker
}

var _ readWrite = (*writer)(nil)

// Reader returns the readers' side, recorded.
func (l *writer) Reader() lock.Locker { return l.reader() }

func (l *locker) acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	template := Event{Mechanism: l.name, Key: key, Shared: l.shared}
	if owner, given := lock.OwnerFrom(ctx); given {
		template.Owner = string(owner)
	}
	began := now()
	l.rec.Record(ctx, template.with(Event{Kind: Acquiring, At: began}))
	refusal := &Event{Kind: Refused, Began: began, Error: panicked}
	defer func() {
		if refusal != nil {
			l.rec.Record(ctx, template.with(*refusal))
		}
	}()
	held, err := l.inner.Acquire(ctx, key, opts)
	if err != nil {
		refusal.Error, refusal.Stored = err.Error(), storedFromRefusal(err)
		return nil, err
	}
	refusal = nil
	template.Owner, template.Token = string(held.Owner()), held.Token()
	recorded := &lease{Lease: held, ctx: ctx, locker: l, template: template, ended: make(chan struct{})}
	recorded.record(Event{Kind: Acquired, Began: began})
	recorded.unwatch = context.AfterFunc(held.Context(), recorded.awaitLoss)
	return recorded, nil
}

// panicked is the Error of a call that panicked.
const panicked = "panic"

// with returns e with the lock of the template.
func (template Event) with(e Event) Event {
	e.Mechanism, e.Key, e.Shared = template.Mechanism, template.Key, template.Shared
	e.Owner, e.Token = template.Owner, template.Token
	return e
}

// storedFromRefusal returns the holder that a refusal names, or nil.
func storedFromRefusal(err error) *Stored {
	refusal, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok || refusal.Holder == "" {
		return nil
	}
	s := &Stored{Owner: string(refusal.Holder)}
	if refusal.TTL > 0 && refusal.TTL != lock.NoExpiry {
		s.TTLMS = new(ms(refusal.TTL))
	}
	return s
}

// inspect returns what the store holds, or nil if that is not known.
func (l *locker) inspect(ctx context.Context, key string) *Stored {
	if l.inspector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	state, err := l.inspector.Inspect(ctx, key)
	if err != nil {
		return nil
	}
	return StoredFrom(state)
}

// StoredFrom converts the state that a mechanism reports of a key.
func StoredFrom(state lock.State) *Stored {
	s := &Stored{Owner: string(state.Owner), Token: state.Token}
	if state.Owner != "" && state.TTL != lock.NoExpiry {
		s.TTLMS = new(ms(state.TTL))
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// lease records the loss, the release or the abandonment of a lease.
type lease struct {
	lock.Lease
	ctx      context.Context // of the acquisition: it names the actor
	locker   *locker
	template Event
	unwatch  func() bool
	ended    chan struct{} // closed when the holder releases or abandons the lease

	loss sync.Once // runs when Lost is recorded, or can no longer happen

	mu    sync.Mutex
	state leaseState
}

type leaseState uint8

const (
	held           leaseState = iota
	releasing                 // a release is in progress
	releaseUnknown            // the release got no answer and may be repeated
	released                  // further calls change nothing
)

func (l *lease) record(e Event) {
	e.At = now()
	if left := l.Remaining(); left != lock.NoExpiry {
		e.LeftMS = new(ms(left))
	}
	l.locker.rec.Record(l.ctx, l.template.with(e))
}

// awaitLoss runs when the lease's context has ended. That is either a loss, or the end of the acquisition's context;
// after the latter a loss may still follow.
func (l *lease) awaitLoss() {
	select {
	case <-l.Lost():
		l.recordLoss()
	case <-l.ended:
	case <-l.locker.rec.closing:
	}
}

// recordLoss records Lost if the holder was told of a loss. Only the first call counts.
func (l *lease) recordLoss() {
	l.loss.Do(func() {
		select {
		case <-l.Lost():
			l.record(Event{Kind: Lost, Error: l.lossReason()})
		default:
		}
	})
}

// lossReason is the cause of a loss. It is not known if the lease's context had ended before, because a context keeps
// only its first cause.
func (l *lease) lossReason() string {
	cause := context.Cause(l.Context())
	if l.ctx.Err() != nil && errors.Is(cause, context.Cause(l.ctx)) {
		return "lost after the context of the acquisition had ended"
	}
	return text(cause)
}

// startRelease marks the lease as being released. It reports false if it already is, or was released before.
func (l *lease) startRelease() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == held {
		l.unwatch()
		close(l.ended)
	}
	if l.state == releasing || l.state == released {
		return false
	}
	l.state = releasing
	return true
}

func (l *lease) setState(state leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

// Release implements [lock.Lease].
func (l *lease) Release(ctx context.Context) error {
	if !l.startRelease() {
		return l.Lease.Release(ctx)
	}
	began := now()
	stored := l.locker.inspect(ctx, l.Key())
	l.recordLoss() // a loss that comes later is part of the release
	l.record(Event{Kind: Releasing, Began: began, Stored: stored})

	began, result, next := now(), panicked, released
	defer func() {
		l.setState(next)
		l.record(Event{Kind: Released, Began: began, Error: result})
	}()
	err := l.Lease.Release(ctx)
	result = text(err)
	if errors.Is(err, lock.ErrUnavailable) {
		next = releaseUnknown
	}
	return err
}

// Handover passes on what [lock.HandoverOf] asks for.
func (l *lease) Handover() lock.Handover { return lock.HandoverOf(l.Lease) }

// Abandon implements [lock.Abandoner].
func (l *lease) Abandon() {
	if l.startRelease() {
		l.recordLoss()
		l.record(Event{Kind: Abandoned})
		l.setState(released)
	}
	lock.Abandon(l.Lease)
}
