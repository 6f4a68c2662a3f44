package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/trace"
)

// Actor is a child process that uses locks as it is told. Its methods are safe for
// use by several goroutines; those that take no context fail the test or the
// experiment that started it, and are for its own goroutine.
type Actor struct {
	t       testkit.TB
	config  Config
	process *testkit.Process
	wire    *wire
	ready   bool
	// watching is over when the end of the process is noted.
	watching sync.WaitGroup

	mu     sync.Mutex
	fate   fate
	pauses []span
}

// childEnv tells a program that it was executed to be an actor.
const childEnv = "SECKILL_LAB_ACTOR"

// Bounds of what the actor's own machinery may take, generous because they are spent
// only when something is wrong.
const (
	startPatience = 60 * time.Second
	stopPatience  = 10 * time.Second
	pausePatience = 10 * time.Second
)

// Start executes this program once more, as an actor, and returns when it is ready.
// The actor ends with the test or experiment; one that ended by itself by then, other
// than by SIGKILL, fails it.
func Start(t testkit.TB, config Config) *Actor {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		t.Fatalf("actor: this process is one itself: its main or TestMain does not call actor.MainIfChild")
	}
	if err := config.Validate(); err != nil {
		t.Fatalf("%v", err)
	}
	if config.TraceFile == "" && !config.Untraced {
		config.TraceFile = filepath.Join(t.TempDir(), config.Name+".trace")
	}
	a := &Actor{t: t, config: config}
	if err := a.execute(); err != nil {
		t.Fatalf("actor %s: start: %v", config.Name, err)
	}
	return a
}

func (a *Actor) execute() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	hello, err := line(a.config)
	if err != nil {
		return err
	}
	input, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	a.wire = newWire(feed)
	ready, err := a.wire.expect(0)
	if err != nil {
		return err
	}
	a.process = testkit.Start(a.t, testkit.Command{
		Path: program, Args: []string{"actor", a.config.Name}, Env: []string{childEnv + "=1"},
		Stdin: input, Stdout: a.wire,
	})
	a.wire.run(a.process.Done())
	a.watching.Go(a.watch)
	a.t.Cleanup(a.end)
	if err := input.Close(); err != nil { // the child's end: only the child has it now
		return err
	}
	a.wire.send(hello)

	ctx, cancel := context.WithTimeout(a.t.Context(), startPatience)
	defer cancel()
	r, err := a.await(ctx, ready)
	switch {
	case errors.Is(err, ErrDead):
		return fmt.Errorf("%w; it printed:\n%s", err, a.process.Output())
	case err != nil:
		return err
	case r.Error != nil:
		return r.Error
	}
	a.ready = true
	return nil
}

// ask sends a request and waits for its answer. A request that ctx ends is taken
// back: a lease that it should still obtain is released.
func (a *Actor) ask(ctx context.Context, do string, with, result any) error {
	err := a.exchange(ctx, do, with, result)
	if err != nil {
		return fmt.Errorf("actor %s: %s: %w", a.config.Name, do, err)
	}
	return nil
}

func (a *Actor) exchange(ctx context.Context, do string, with, result any) error {
	data, err := json.Marshal(with)
	if err != nil {
		return err
	}
	id := a.wire.nextID()
	message, err := line(request{ID: id, Do: do, With: data})
	if err != nil {
		return err
	}
	answer, err := a.wire.expect(id)
	if err != nil {
		return err
	}
	defer a.wire.forget(id)
	a.wire.send(message)
	r, err := a.await(ctx, answer)
	if err != nil {
		if ctx.Err() != nil {
			a.takeBack(id)
		}
		return err
	}
	if r.Result != nil && result != nil {
		if err := json.Unmarshal(r.Result, result); err != nil {
			return fmt.Errorf("the answer is not understood: %w", err)
		}
	}
	if r.Error != nil {
		return r.Error
	}
	return nil
}

// await waits for an answer. All that the process said before its end is delivered
// before it counts as ended.
func (a *Actor) await(ctx context.Context, answer <-chan reply) (reply, error) {
	select {
	case r := <-answer:
		return r, nil
	case <-a.process.Done():
		select {
		case r := <-answer:
			return r, nil
		default:
			return reply{}, ErrDead
		}
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

func (a *Actor) takeBack(id int64) {
	if message, err := line(request{ID: id, Do: doCancel}); err == nil {
		a.wire.send(message)
	}
}

// end closes the actor's input, upon which it ends by itself, and kills it if it
// does not.
func (a *Actor) end() {
	a.mu.Lock()
	killed, paused := a.fate.killed, a.stopped()
	a.mu.Unlock()
	if paused {
		a.Kill()
		killed = true
	}
	a.wire.close()
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-a.process.Done():
	case <-timeout.C:
		a.t.Errorf("actor %s did not end by itself within %v of the end of its input", a.config.Name, stopPatience)
		a.process.Kill()
		killed = true
	}
	a.wire.wait()
	a.watching.Wait()
	if err := a.process.Wait(); err != nil && a.ready && !killed && !diedOfKill(err) {
		a.t.Errorf("actor %s ended with %v; it printed:\n%s", a.config.Name, err, a.process.Output())
	}
	if stray := a.wire.stray(); stray != "" {
		a.t.Errorf("actor %s printed something that is no answer: %.200q", a.config.Name, stray)
	}
}

// Name is the name of the process in the trace.
func (a *Actor) Name() string { return a.config.Name }

// PID is the id of the process.
func (a *Actor) PID() int { return a.process.PID() }

// Events reads what the actor has written to its trace file so far.
func (a *Actor) Events() []trace.Event {
	a.t.Helper()
	if a.config.Untraced {
		return nil
	}
	data, err := os.ReadFile(a.config.TraceFile)
	if err != nil {
		a.t.Fatalf("actor %s: %v", a.config.Name, err)
	}
	events, err := trace.Parse(data)
	if err != nil {
		a.t.Fatalf("actor %s: trace: %v", a.config.Name, err)
	}
	return events
}

// Acquire asks for a lock. The grant has its times also where it was refused.
func (a *Actor) Acquire(ctx context.Context, what Acquire) (Grant, error) {
	var g Grant
	err := a.ask(ctx, doAcquire, what, &g)
	return g, err
}

// Release gives a lease back, within [lock.ReleaseTimeout].
func (a *Actor) Release(ctx context.Context, l Lease) error {
	return a.ask(ctx, doRelease, onLease{Lease: l}, nil)
}

// Extend lets a fixed lease run ttl from now; see [lock.Lease].
func (a *Actor) Extend(ctx context.Context, l Lease, ttl time.Duration) error {
	return a.ask(ctx, doExtend, onLease{Lease: l, TTL: int64(ttl)}, nil)
}

// Abandon walks away from a lease as a holder that died does.
func (a *Actor) Abandon(ctx context.Context, l Lease) error {
	return a.ask(ctx, doAbandon, onLease{Lease: l}, nil)
}

// Status asks what the holder knows of its lease.
func (a *Actor) Status(ctx context.Context, l Lease) (Status, error) {
	var s Status
	err := a.ask(ctx, doStatus, onLease{Lease: l}, &s)
	return s, err
}

// AwaitLoss waits until the holder is told that it holds no longer.
func (a *Actor) AwaitLoss(ctx context.Context, l Lease) (Status, error) {
	var s Status
	err := a.ask(ctx, doAwaitLoss, onLease{Lease: l}, &s)
	return s, err
}

// Inspect asks the mechanism what its store knows of a key.
func (a *Actor) Inspect(ctx context.Context, mechanism, key string) (lock.State, error) {
	var s lock.State
	err := a.ask(ctx, doInspect, onKey{Lock: mechanism, Key: key}, &s)
	return s, err
}

// Read reads the stock, as the first step of a transaction that a [Write] ends.
func (a *Actor) Read(ctx context.Context, what Read) (Reading, error) {
	var r Reading
	err := a.ask(ctx, doRead, what, &r)
	return r, err
}

// Write takes one from the stock, and commits.
func (a *Actor) Write(ctx context.Context, what Write) error {
	return a.ask(ctx, doWrite, what, nil)
}

// Sell places an order as the service does, under a lease or under none.
func (a *Actor) Sell(ctx context.Context, what Sell) (Sold, error) {
	var s Sold
	err := a.ask(ctx, doSell, what, &s)
	return s, err
}

// Panic acquires and panics. The error is that of the acquisition.
func (a *Actor) Panic(ctx context.Context, what Panic) (Panicked, error) {
	var p Panicked
	err := a.ask(ctx, doPanic, what, &p)
	return p, err
}

// Nest acquires a key twice, the second time while it holds the first. The error is
// that of the first acquisition.
func (a *Actor) Nest(ctx context.Context, what Nest) (Nested, error) {
	var n Nested
	err := a.ask(ctx, doNest, what, &n)
	return n, err
}

// Loop acquires, holds and releases again and again.
func (a *Actor) Loop(ctx context.Context, what Loop) (Looped, error) {
	var l Looped
	err := a.ask(ctx, doLoop, what, &l)
	return l, err
}
