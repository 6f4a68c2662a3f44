// Package lockclient is for experiments about a lock itself: a [Client] is a real child
// process that uses locks and the database step by step, as it is told. It can be paused or
// killed.
//
// The program executes itself once more for each client, and the child runs [Main]: see
// [MainIfChild]. The child reads a [Config] from its standard input, opens the lockers and the
// database, and then serves requests concurrently. It records its events in a file, as the
// service does: see package eventlog.
//
// # The protocol
//
// Both ends are this package, and every message is one line of JSON. A request has a number, a
// name and arguments. Its reply is one line with the same number, sent as soon as the request
// is done. "cancel" cancels the request of that number: its work ends, a lease that it has
// acquired is released, and there is no reply to the cancel itself. The end of the input ends
// the child. It releases nothing, but locks that depend on a session or a connection end with
// that.
//
// # Errors
//
// An error in the child is returned as an [*Error] with a kind from a closed list. errors.Is
// finds the child's sentinel in it: a [lock.ErrLost] there is a [lock.ErrLost] here. If the
// child has ended, the error is [ErrDead].
package lockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// Client is a child process that uses locks as it is told. Its methods may be called from
// several goroutines. Those without a context fail the test or experiment that started it, so
// call them from its own goroutine.
type Client struct {
	t         testkit.TB
	config    Config
	process   *testkit.Process
	transport *transport
	ready     bool
	// exitNoted waits until the exit of the process is recorded.
	exitNoted sync.WaitGroup

	mu     sync.Mutex
	exit   exit
	pauses []pausePeriod
}

// childEnv tells a program that it was started as a client.
const childEnv = "SECKILL_LAB_CLIENT"

// Limits of the client's own machinery. They are generous, because they are used up only when
// something is wrong.
const (
	startLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
)

// Start executes this program once more, as a client, and returns when the client is ready.
// The client ends with the test or experiment. If it has ended by itself by then, other than
// by SIGKILL, the test or experiment fails.
func Start(t testkit.TB, config Config) *Client {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		t.Fatalf("lockclient: this process is a client itself: its main or TestMain does not call lockclient.MainIfChild")
	}
	if err := config.Validate(); err != nil {
		t.Fatalf("%v", err)
	}
	if config.EventFile == "" && !config.Untraced {
		config.EventFile = filepath.Join(t.TempDir(), config.Name+".events")
	}
	c := &Client{t: t, config: config}
	if err := c.execute(); err != nil {
		t.Fatalf("lock client %s: start: %v", config.Name, err)
	}
	if f, ok := t.(follower); ok {
		f.Follow(c.addSoFar)
	}
	return c
}

// follower is an experiment that can be followed while it runs.
type follower interface {
	Follow(source func(*judge.Evidence))
}

func (c *Client) execute() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	hello, err := line(c.config)
	if err != nil {
		return err
	}
	input, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	c.transport = newTransport(feed)
	ready, err := c.transport.expect(0)
	if err != nil {
		return err
	}
	c.process = testkit.Start(c.t, testkit.Command{
		Path: program, Args: []string{"lock-client", c.config.Name}, Env: []string{childEnv + "=1"},
		Stdin: input, Stdout: c.transport,
	})
	c.transport.run(c.process.Done())
	c.exitNoted.Go(c.noteExit)
	c.t.Cleanup(c.end)
	if err := input.Close(); err != nil { // the child's end: only the child uses it now
		return err
	}
	c.transport.send(hello)

	ctx, cancel := context.WithTimeout(c.t.Context(), startLimit)
	defer cancel()
	r, err := c.await(ctx, ready)
	switch {
	case errors.Is(err, ErrDead):
		return fmt.Errorf("%w; it printed:\n%s", err, c.process.Output())
	case err != nil:
		return err
	case r.Error != nil:
		return r.Error
	}
	c.ready = true
	return nil
}

// ask sends a request and waits for its answer. When ctx ends, the request is cancelled: a
// lease that it still acquires is released.
func (c *Client) ask(ctx context.Context, do string, with, result any) error {
	err := c.exchange(ctx, do, with, result)
	if err != nil {
		return fmt.Errorf("lock client %s: %s: %w", c.config.Name, do, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, do string, with, result any) error {
	data, err := json.Marshal(with)
	if err != nil {
		return err
	}
	id := c.transport.nextID()
	message, err := line(request{ID: id, Do: do, With: data})
	if err != nil {
		return err
	}
	answer, err := c.transport.expect(id)
	if err != nil {
		return err
	}
	defer c.transport.forget(id)
	c.transport.send(message)
	r, err := c.await(ctx, answer)
	if err != nil {
		if ctx.Err() != nil {
			c.cancel(id)
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

// await waits for an answer. Everything that the process sent before its end is delivered
// before it counts as ended.
func (c *Client) await(ctx context.Context, answer <-chan reply) (reply, error) {
	select {
	case r := <-answer:
		return r, nil
	case <-c.process.Done():
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

func (c *Client) cancel(id int64) {
	if message, err := line(request{ID: id, Do: doCancel}); err == nil {
		c.transport.send(message)
	}
}

// end closes the client's input, which makes it end by itself, and kills it if it does not.
func (c *Client) end() {
	c.mu.Lock()
	killed, paused := c.exit.killed, c.stopped()
	c.mu.Unlock()
	if paused {
		c.Kill()
		killed = true
	}
	c.transport.close()
	timeout := time.NewTimer(stopLimit)
	defer timeout.Stop()
	select {
	case <-c.process.Done():
	case <-timeout.C:
		c.t.Errorf("lock client %s did not end by itself within %v of the end of its input", c.config.Name, stopLimit)
		c.process.Kill()
		killed = true
	}
	c.transport.wait()
	c.exitNoted.Wait()
	if err := c.process.Wait(); err != nil && c.ready && !killed && !killedBySignal(err) {
		c.t.Errorf("lock client %s ended with %v; it printed:\n%s", c.config.Name, err, c.process.Output())
	}
	if stray := c.transport.invalidLine(); stray != "" {
		c.t.Errorf("lock client %s printed something that is no answer: %.200q", c.config.Name, stray)
	}
}

// Name is the name of the process in the event log.
func (c *Client) Name() string { return c.config.Name }

// PID is the id of the process.
func (c *Client) PID() int { return c.process.PID() }

// Events returns what the client has written to its event file so far.
func (c *Client) Events() []eventlog.Event {
	c.t.Helper()
	if c.config.Untraced {
		return nil
	}
	data, err := os.ReadFile(c.config.EventFile)
	if err != nil {
		c.t.Fatalf("lock client %s: %v", c.config.Name, err)
	}
	events, err := eventlog.Parse(data)
	if err != nil {
		c.t.Fatalf("lock client %s: event log: %v", c.config.Name, err)
	}
	return events
}

// Acquire asks for a lock. The grant has its times even if the lock was refused.
func (c *Client) Acquire(ctx context.Context, what Acquire) (Grant, error) {
	var g Grant
	err := c.ask(ctx, doAcquire, what, &g)
	return g, err
}

// Release releases a lease, within [lock.ReleaseTimeout].
func (c *Client) Release(ctx context.Context, l Lease) error {
	return c.ask(ctx, doRelease, onLease{Lease: l}, nil)
}

// Extend makes a fixed lease run ttl from now; see [lock.Lease].
func (c *Client) Extend(ctx context.Context, l Lease, ttl time.Duration) error {
	return c.ask(ctx, doExtend, onLease{Lease: l, TTL: int64(ttl)}, nil)
}

// Abandon leaves a lease without releasing it, like a holder that died.
func (c *Client) Abandon(ctx context.Context, l Lease) error {
	return c.ask(ctx, doAbandon, onLease{Lease: l}, nil)
}

// Status returns what the holder knows of its lease.
func (c *Client) Status(ctx context.Context, l Lease) (Status, error) {
	var s Status
	err := c.ask(ctx, doStatus, onLease{Lease: l}, &s)
	return s, err
}

// AwaitLoss waits until the holder is told that it has lost the lock.
func (c *Client) AwaitLoss(ctx context.Context, l Lease) (Status, error) {
	var s Status
	err := c.ask(ctx, doAwaitLoss, onLease{Lease: l}, &s)
	return s, err
}

// Inspect asks the mechanism what its store holds under a key.
func (c *Client) Inspect(ctx context.Context, mechanism, key string) (lock.State, error) {
	var s lock.State
	err := c.ask(ctx, doInspect, onKey{Lock: mechanism, Key: key}, &s)
	return s, err
}

// Read reads the stock, as the first step of a transaction that a [Write] ends.
func (c *Client) Read(ctx context.Context, what Read) (Reading, error) {
	var r Reading
	err := c.ask(ctx, doRead, what, &r)
	return r, err
}

// Write takes one from the stock and commits.
func (c *Client) Write(ctx context.Context, what Write) error {
	return c.ask(ctx, doWrite, what, nil)
}

// Sell places an order as the service does, under a lease or without one.
func (c *Client) Sell(ctx context.Context, what Sell) (Sold, error) {
	var s Sold
	err := c.ask(ctx, doSell, what, &s)
	return s, err
}

// Panic acquires and panics. The error is that of the acquisition.
func (c *Client) Panic(ctx context.Context, what Panic) (Panicked, error) {
	var p Panicked
	err := c.ask(ctx, doPanic, what, &p)
	return p, err
}

// Nest acquires a key twice, the second time while it holds the first. The error is
// that of the first acquisition.
func (c *Client) Nest(ctx context.Context, what Nest) (Nested, error) {
	var n Nested
	err := c.ask(ctx, doNest, what, &n)
	return n, err
}

// Loop acquires, holds and releases again and again.
func (c *Client) Loop(ctx context.Context, what Loop) (Looped, error) {
	var l Looped
	err := c.ask(ctx, doLoop, what, &l)
	return l, err
}
