// Package serve is the main function of a lock that lab judge judges, if it is written in Go.
package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/lockjudge/wire"
	"seckill/internal/lock"
)

// New makes the lock of one process. watchdog is the lease that it renews where an acquisition names none; a lock
// without a watchdog ignores it.
type New func(client *redis.Client, watchdog time.Duration) (lock.Locker, error)

// Main serves a lock on standard input and output, until the input ends, or explores it: see [ExploreArgument]. renews
// says whether the lock has a watchdog, and leavesOut names the behaviours that it does not promise. It does not
// return.
func Main(renews bool, open New, leavesOut ...string) {
	answer := func(ctx context.Context, in io.Reader, out io.Writer, renews bool, open New) error {
		return Serve(ctx, in, out, renews, open, leavesOut...)
	}
	if len(os.Args) == 2 && os.Args[1] == ExploreArgument {
		answer = exploreLock
	}
	if err := answer(context.Background(), os.Stdin, os.Stdout, renews, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve is Main with other files.
func Serve(ctx context.Context, in io.Reader, out io.Writer, renews bool, open New, leavesOut ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{out: out, renews: renews, leavesOut: leavesOut, open: open, leases: map[string]lock.Lease{}, calls: map[int64]context.CancelFunc{}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r wire.Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("serve: %q: %w", lines.Text(), err)
		}
		if r.Do == wire.Cancel {
			s.cancel(r.Of)
			continue
		}
		mine, end := context.WithCancel(ctx)
		s.begin(r.ID, end)
		go s.handle(mine, r)
	}
	return lines.Err()
}

type server struct {
	renews    bool
	leavesOut []string
	open      New

	writing sync.Mutex
	out     io.Writer

	mu     sync.Mutex
	locker lock.Locker
	last   int
	leases map[string]lock.Lease
	calls  map[int64]context.CancelFunc
}

func (s *server) begin(id int64, end context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id] = end
}

func (s *server) cancel(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.calls[id]; end != nil {
		end()
	}
}

func (s *server) send(r wire.Reply) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers always have a JSON text
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.out.Write(append(line, '\n')) // nobody reads any more: the input ends, too
}

func (s *server) handle(ctx context.Context, r wire.Request) {
	var reply wire.Reply
	var err error
	switch r.Do {
	case wire.Open:
		reply, err = s.connect(r)
	case wire.Acquire:
		reply, err = s.acquire(ctx, r)
	case wire.Release:
		err = s.release(ctx, r.Lease)
	default:
		err = fmt.Errorf("%w: there is nothing called %q to do", lock.ErrInvalid, r.Do)
	}
	reply.ID = r.ID
	if err != nil {
		reply.Error, reply.Text = code(err), err.Error()
		if refusal, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
			reply.Holder = string(refusal.Holder)
		}
	}
	s.send(reply)
}

// code is the code of an error.
func code(err error) string {
	for _, known := range []struct {
		err  error
		code string
	}{
		{lock.ErrNotAcquired, wire.NotAcquired}, {lock.ErrNotHeld, wire.NotHeld}, {lock.ErrUnavailable, wire.Unavailable},
		{lock.ErrExpired, wire.Expired}, {lock.ErrLost, wire.Lost}, {lock.ErrInvalid, wire.Invalid}, {context.Canceled, wire.Cancelled}, {context.DeadlineExceeded, wire.Cancelled},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return "failed"
}

func (s *server) connect(r wire.Request) (wire.Reply, error) {
	options, err := redis.ParseURL(r.Redis)
	if err != nil {
		return wire.Reply{}, err
	}
	options.ContextTimeoutEnabled, options.DialerRetries = true, 1
	locker, err := s.open(redis.NewClient(options), time.Duration(r.WatchdogMS)*time.Millisecond)
	if err != nil {
		return wire.Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locker = locker
	reply := wire.Reply{LeavesOut: s.leavesOut}
	if s.renews {
		reply.WatchdogMS = r.WatchdogMS
	}
	return reply, nil
}

func (s *server) acquire(ctx context.Context, r wire.Request) (wire.Reply, error) {
	s.mu.Lock()
	locker, end := s.locker, s.calls[r.ID]
	s.mu.Unlock()
	if locker == nil {
		return wire.Reply{}, fmt.Errorf("%w: nothing was opened", lock.ErrInvalid)
	}
	if r.Owner != "" {
		ctx = lock.WithOwner(ctx, lock.Owner(r.Owner))
	}
	if r.GiveUpMS > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(r.GiveUpMS)*time.Millisecond)
		context.AfterFunc(ctx, stop) // a lease that is granted has this context until then
	}
	options := lock.Options{Wait: time.Duration(r.WaitMS) * time.Millisecond, TTL: time.Duration(r.TTLMS) * time.Millisecond}
	l, err := locker.Acquire(ctx, r.Key, options)
	if err != nil {
		end()
		return wire.Reply{}, err
	}
	s.mu.Lock()
	s.last++
	name := strconv.Itoa(s.last)
	s.leases[name] = l
	s.mu.Unlock()
	reply := wire.Reply{Lease: name, Owner: string(l.Owner())}
	if token := l.Token(); token != 0 {
		reply.Token = strconv.FormatUint(token, 10)
	}
	if left := l.Remaining(); left != lock.NoExpiry {
		reply.LeftMS = new(left.Milliseconds())
	}
	go func() {
		<-l.Lost()
		s.send(wire.Reply{Lost: name, Error: code(context.Cause(l.Context()))})
	}()
	return reply, nil
}

func (s *server) release(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.leases[name]
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%w: there is no lease %q", lock.ErrInvalid, name)
	}
	return lock.Release(ctx, l)
}
