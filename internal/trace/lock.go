package trace

import (
	"context"
	"errors"
	"sync"
	"time"

	"seckill/internal/lock"
)

// peekTimeout bounds the look at the store before a release.
const peekTimeout = 200 * time.Millisecond

// Locker returns l, whose use is recorded under the name of a mechanism. It is a
// [lock.Inspector] and a [lock.Breaker]; asked for what l is not, it gives
// [errors.ErrUnsupported]. Where l has a side for readers (a method Reader), so has
// it.
//
// Before a release it asks l, where that can be asked, who holds the key: it is what
// shows that a holder was robbed. That look costs a round trip, and at most 200 ms.
func Locker(name string, l lock.Locker, rec *Recorder) lock.Locker {
	t := &locker{inner: l, name: name, rec: rec}
	t.inspector, _ = l.(lock.Inspector)
	t.breaker, _ = l.(lock.Breaker)
	if _, shares := l.(sharing); shares {
		return &sharedLocker{t}
	}
	return t
}

type locker struct {
	inner     lock.Locker
	inspector lock.Inspector // nil where the mechanism cannot be asked
	breaker   lock.Breaker   // nil where none can be taken away
	name      string
	rec       *Recorder
	shared    bool
}

// sharing is a locker that readers can hold together.
type sharing interface{ Reader() lock.Locker }

// sharedLocker is the writers' side of a mechanism that has readers, too.
type sharedLocker struct{ *locker }

var (
	_ lock.Inspector = (*locker)(nil)
	_ lock.Breaker   = (*locker)(nil)
	_ sharing        = (*sharedLocker)(nil)
)

// Reader is the recorded side of the readers.
func (l *sharedLocker) Reader() lock.Locker {
	reader := *l.locker
	reader.inner, reader.shared = l.inner.(sharing).Reader(), true
	return &reader
}

// Acquire implements [lock.Locker].
func (l *locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	about := Event{Mechanism: l.name, Key: key, Shared: l.shared}
	if owner, given := lock.OwnerFrom(ctx); given {
		about.Owner = string(owner)
	}
	asked := now()
	l.rec.Record(ctx, about.with(Event{Kind: Asked, At: asked}))
	refusal := &Event{Kind: Refused, Asked: asked, Error: panicked}
	defer func() {
		if refusal != nil {
			l.rec.Record(ctx, about.with(*refusal))
		}
	}()
	held, err := l.inner.Acquire(ctx, key, opts)
	if err != nil {
		refusal.Error, refusal.Stored = err.Error(), holder(err)
		return nil, err
	}
	refusal = nil
	about.Owner, about.Token = string(held.Owner()), held.Token()
	recorded := &lease{Lease: held, ctx: ctx, locker: l, about: about, over: make(chan struct{})}
	recorded.record(Event{Kind: Acquired, Asked: asked})
	recorded.unwatch = context.AfterFunc(held.Context(), recorded.watch)
	return recorded, nil
}

// panicked stands for the error of what did not return.
const panicked = "panic"

// with is an event about the same lock.
func (e Event) with(what Event) Event {
	what.Mechanism, what.Key, what.Shared = e.Mechanism, e.Key, e.Shared
	what.Owner, what.Token = e.Owner, e.Token
	return what
}

// holder is who had the key, as far as a refusal says.
func holder(err error) *Stored {
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

// Inspect implements [lock.Inspector].
func (l *locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if l.inspector == nil {
		return lock.State{}, errors.ErrUnsupported
	}
	return l.inspector.Inspect(ctx, key)
}

// ForceRelease implements [lock.Breaker].
func (l *locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	if l.breaker == nil {
		return false, errors.ErrUnsupported
	}
	return l.breaker.ForceRelease(ctx, key)
}

// peek looks at what the store holds, or gives nil where that could not be found out.
func (l *locker) peek(ctx context.Context, key string) *Stored {
	if l.inspector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	state, err := l.inspector.Inspect(ctx, key)
	if err != nil {
		return nil
	}
	return Seen(state)
}

// Seen is an event's form of what a mechanism said of a key.
func Seen(state lock.State) *Stored {
	s := &Stored{Owner: string(state.Owner), Token: state.Token}
	if state.Owner != "" && state.TTL != lock.NoExpiry {
		s.TTLMS = new(ms(state.TTL))
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// lease records what becomes of a lease.
type lease struct {
	lock.Lease
	ctx     context.Context // of the acquisition: it says who acts
	locker  *locker
	about   Event
	unwatch func() bool
	over    chan struct{} // closed when the holder lets go

	loss sync.Once // Lost is recorded, or will not be any more

	mu    sync.Mutex
	state leaseState
}

type leaseState uint8

const (
	held      leaseState = iota
	lettingGo            // a release is under way
	unknown              // it had no answer, and may be repeated
	gone                 // what follows changes nothing
)

func (l *lease) record(e Event) {
	e.At = now()
	if left := l.Remaining(); left != lock.NoExpiry {
		e.LeftMS = new(ms(left))
	}
	l.locker.rec.Record(l.ctx, l.about.with(e))
}

// watch runs when the lease's context has ended: by a loss, or with the context of
// the acquisition, and then a loss may come yet.
func (l *lease) watch() {
	select {
	case <-l.Lost():
		l.lost()
	case <-l.over:
	case <-l.locker.rec.closing:
	}
}

// lost records that the holder was told, if it was, and is the last word about that.
func (l *lease) lost() {
	l.loss.Do(func() {
		select {
		case <-l.Lost():
			l.record(Event{Kind: Lost, Error: l.why()})
		default:
		}
	})
}

// why is the cause of a loss. A context that had ended before tells only why it did.
func (l *lease) why() string {
	cause := context.Cause(l.Context())
	if l.ctx.Err() != nil && errors.Is(cause, context.Cause(l.ctx)) {
		return "lost after the context of the acquisition had ended"
	}
	return text(cause)
}

// letGo notes that the holder does. It reports false where that was so before.
func (l *lease) letGo() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == held {
		l.unwatch()
		close(l.over)
	}
	if l.state == lettingGo || l.state == gone {
		return false
	}
	l.state = lettingGo
	return true
}

func (l *lease) is(state leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

// Release implements [lock.Lease].
func (l *lease) Release(ctx context.Context) error {
	if !l.letGo() {
		return l.Lease.Release(ctx)
	}
	began := now()
	stored := l.locker.peek(ctx, l.Key())
	l.lost() // now at the latest
	l.record(Event{Kind: Releasing, Asked: began, Stored: stored})

	asked, said, then := now(), panicked, gone
	defer func() {
		l.is(then)
		l.record(Event{Kind: Released, Asked: asked, Error: said})
	}()
	err := l.Lease.Release(ctx)
	said = text(err)
	if errors.Is(err, lock.ErrUnavailable) {
		then = unknown
	}
	return err
}

// Abandon implements [lock.Lease].
func (l *lease) Abandon() {
	if l.letGo() {
		l.lost()
		l.record(Event{Kind: Abandoned})
		l.is(gone)
	}
	l.Lease.Abandon()
}
