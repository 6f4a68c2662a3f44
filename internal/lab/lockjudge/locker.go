package lockjudge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lab/lockjudge/wire"
	"seckill/internal/lock"
)

// locker is the lock of one process, as package locktest sees it. A process that was killed is started again when it is
// needed.
type locker struct {
	name    string // in the history
	begin   func() (*program, error)
	history *history

	mu      sync.Mutex
	program *program
}

var _ lock.Locker = (*locker)(nil)

// running returns the process, started if necessary.
func (l *locker) running() (*program, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.program != nil {
		return l.program, nil
	}
	p, err := l.begin()
	l.program = p
	return p, err
}

// kill ends the process.
func (l *locker) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.program != nil {
		l.program.kill()
		l.program = nil
	}
}

// Acquire implements [lock.Locker].
func (l *locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	p, err := l.running()
	if err != nil {
		return nil, err
	}
	request := wire.Request{Do: wire.Acquire, Key: key, WaitMS: opts.Wait.Milliseconds(), TTLMS: opts.TTL.Milliseconds()}
	if at, ends := ctx.Deadline(); ends {
		request.GiveUpMS = max(0, time.Until(at).Milliseconds()) + 1 // not before the caller gives up
	}
	owner, given := lock.OwnerFrom(ctx)
	request.Owner = string(owner)
	what := "acquire " + key
	if opts.TTL > 0 {
		what += fmt.Sprintf(", lease %v", opts.TTL)
	}
	if opts.Wait > 0 {
		what += fmt.Sprintf(", wait %v", opts.Wait)
	}
	done := l.history.begin(l.name, what)
	start := time.Now()
	reply, err := p.ask(ctx, request)
	if err == nil {
		err = errorOf(reply, key)
	}
	done(err, "granted")
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	granted := &lease{
		locker: l, program: p, name: reply.Lease, key: key, owner: lock.Owner(reply.Owner), token: tokenOf(reply),
		start: start, lost: make(chan struct{}), left: lock.NoExpiry, renewed: p.renewed > 0 && opts.TTL == 0,
	}
	if given {
		granted.owner = owner
	}
	if reply.LeftMS != nil {
		granted.left = time.Duration(*reply.LeftMS) * time.Millisecond
	}
	granted.ctx, granted.cancel = context.WithCancelCause(ctx)
	p.mu.Lock()
	p.leases[reply.Lease] = granted
	why, gone := p.gone[reply.Lease]
	p.mu.Unlock()
	if gone {
		granted.lose(why)
	}
	return granted, nil
}

// lease is a lock that a process holds.
type lease struct {
	locker  *locker
	program *program
	name    string
	key     string
	owner   lock.Owner
	token   uint64
	start   time.Time
	left    time.Duration // at start
	renewed bool
	ctx     context.Context
	cancel  context.CancelCauseFunc

	telling sync.Once
	lost    chan struct{}
}

var (
	_ lock.Lease     = (*lease)(nil)
	_ lock.Abandoner = (*lease)(nil)
)

// lose passes a notice of the program on.
func (l *lease) lose(code string) {
	l.telling.Do(func() {
		cause := errorOf(wire.Reply{Error: code}, l.key)
		l.locker.history.note(l.locker.name, fmt.Sprintf("is told that it lost %s: %v", l.key, cause))
		l.cancel(cause)
		close(l.lost)
	})
}

// Key implements [lock.Lease].
func (l *lease) Key() string { return l.key }

// Owner implements [lock.Lease].
func (l *lease) Owner() lock.Owner { return l.owner }

// Token implements [lock.Lease].
func (l *lease) Token() uint64 { return l.token }

// Lost implements [lock.Lease].
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Context implements [lock.Lease].
func (l *lease) Context() context.Context { return l.ctx }

// Remaining implements [lock.Lease]. Renewals are the program's own affair: they are not known here, so a lease that is
// renewed does not get shorter.
func (l *lease) Remaining() time.Duration {
	if l.left == lock.NoExpiry {
		return lock.NoExpiry
	}
	left := l.left - time.Since(l.start)
	if l.renewed {
		return max(time.Millisecond, left)
	}
	return left
}

// Extend implements [lock.Lease].
func (l *lease) Extend(context.Context, time.Duration) error { return errors.ErrUnsupported }

// Release implements [lock.Lease]. Every call reaches the program: what a second release does is a question to the
// lock.
func (l *lease) Release(ctx context.Context) error {
	done := l.locker.history.begin(l.locker.name, "release "+l.key)
	reply, err := l.program.ask(ctx, wire.Request{Do: wire.Release, Lease: l.name})
	if err == nil {
		err = errorOf(reply, l.key)
	}
	done(err, "released")
	l.cancel(lock.ErrReleased)
	return err
}

// Abandon implements [lock.Abandoner]: the holder's process dies.
func (l *lease) Abandon() {
	select {
	case <-l.program.ended:
	default:
		l.locker.history.note(l.locker.name, "is killed")
	}
	l.locker.kill()
}
