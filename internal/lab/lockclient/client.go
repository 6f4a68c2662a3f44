// Package lockclient is for experiments about a lock itself: a [Client] is a real child process that uses locks and the
// database step by step, as it is told. It can be paused or killed.
//
// The program executes itself once more for each client, with the client's [Config] in its environment: see
// [MainIfChild]. The child opens the lockers and the database, and then serves requests concurrently, with package
// net/rpc on its standard input and output. It records its events in a file, as the service does: see package eventlog.
// The end of the input ends the child. It releases nothing, but locks that depend on a session or a connection end with
// that.
//
// # Errors
//
// An error in the child is returned as an [*Error] with a kind from a closed list. errors.Is finds the child's sentinel
// in it: a [lock.ErrLost] there is a [lock.ErrLost] here. If the child has ended, the error is [ErrDead].
package lockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/testkit"
)

// Client is a child process that uses locks as it is told. Its methods may be called from several goroutines. Those
// without a context fail the test or experiment that started it, so call them from its own goroutine.
type Client struct {
	t       testkit.TB
	config  Config
	process *testkit.Process
	rpc     *rpc.Client
	last    atomic.Int64 // request
	ready   bool
	// background notes the end of the process, and takes requests back whose caller has gone.
	background sync.WaitGroup

	mu     sync.Mutex
	exit   exit
	pauses []pausePeriod
}

// childEnv tells a program that it was started as a client. Its value is the client's [Config].
const childEnv = "SECKILL_LAB_CLIENT"

// Limits of the client's own machinery. They are generous, because they are used up only when something is wrong.
const (
	startLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
)

// Start executes this program once more, as a client, and returns when the client is ready. The client ends with the
// test or experiment. If it has ended by itself by then, other than by SIGKILL, the test or experiment fails.
func Start(t testkit.TB, config Config) *Client {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		t.Fatalf("lockclient: this process is a client itself: its main or TestMain does not call lockclient.MainIfChild")
	}
	config.EventFile = filepath.Join(t.TempDir(), config.Name+".events")
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
	config, err := json.Marshal(c.config)
	if err != nil {
		return err
	}
	input, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, output := io.Pipe()
	c.process = testkit.Start(c.t, testkit.Command{
		Path: program, Args: []string{"lock-client", c.config.Name}, Env: []string{childEnv + "=" + string(config)},
		Stdin: input, Stdout: output,
	})
	c.rpc = jsonrpc.NewClient(conn{answers, feed})
	c.background.Go(func() {
		c.noteExit()
		_ = output.Close() // all that was sent is delivered: what has no answer by now has none
	})
	c.t.Cleanup(c.end)
	if err := input.Close(); err != nil { // the child's end: only the child uses it now
		return err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), startLimit)
	defer cancel()
	if _, err := ask[noResult](ctx, c, "Ready", noResult{}); errors.Is(err, ErrDead) {
		return fmt.Errorf("%w; it printed:\n%s", err, c.process.Output())
	} else if err != nil {
		return err
	}
	c.ready = true
	return nil
}

// conn is a connection of two pipes.
type conn struct {
	io.Reader
	io.WriteCloser
}

// ask sends a request and waits for its answer. When ctx ends, the request is cancelled: a lease that it still acquires
// is released.
func ask[R, P any](ctx context.Context, c *Client, do string, with P) (result R, err error) {
	var reply Reply[R]
	id := c.last.Add(1)
	call := c.rpc.Go(service+"."+do, Request[P]{id, with}, &reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		switch result = reply.Result; {
		case call.Error != nil: // the connection has ended
			<-c.process.Done()
			err = fmt.Errorf("%w: %w", ErrDead, call.Error)
		case reply.Error != nil:
			err = reply.Error
		}
	case <-ctx.Done():
		err = ctx.Err()
		c.background.Go(func() { takeBack(c, id, call, &reply) })
	}
	if err != nil {
		err = fmt.Errorf("lock client %s: %s: %w", c.config.Name, do, err)
	}
	return result, err
}

// takeBack cancels a request. If that has acquired a lease before, it releases the lease.
func takeBack[R any](c *Client, id int64, call *rpc.Call, reply *Reply[R]) {
	c.rpc.Go(service+".Cancel", id, &noResult{}, nil)
	<-call.Done
	if g, granted := any(reply.Result).(Grant); granted && g.Lease != "" {
		_ = c.rpc.Call(service+".Release", Request[Lease]{c.last.Add(1), g.Lease}, &Reply[noResult]{}) // no one is left to report it to
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
	_ = c.rpc.Close()
	timeout := time.NewTimer(stopLimit)
	defer timeout.Stop()
	select {
	case <-c.process.Done():
	case <-timeout.C:
		c.t.Errorf("lock client %s did not end by itself within %v of the end of its input", c.config.Name, stopLimit)
		c.process.Kill()
		killed = true
	}
	c.background.Wait()
	if err := c.process.Wait(); err != nil && c.ready && !killed && !killedBySignal(err) {
		c.t.Errorf("lock client %s ended with %v; it printed:\n%s", c.config.Name, err, c.process.Output())
	}
}

// Name is the name of the process in the event log.
func (c *Client) Name() string { return c.config.Name }

// Events returns what the client has written to its event file so far.
func (c *Client) Events() []eventlog.Event {
	c.t.Helper()
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
	return ask[Grant](ctx, c, "Acquire", what)
}

// Release releases a lease, within [lock.ReleaseTimeout].
func (c *Client) Release(ctx context.Context, l Lease) error {
	_, err := ask[noResult](ctx, c, "Release", l)
	return err
}

// Told returns when the holder was told that it has lost the lock; 0: not yet.
func (c *Client) Told(ctx context.Context, l Lease) (at int64, err error) {
	return ask[int64](ctx, c, "Told", l)
}

// AwaitLoss waits until the holder is told that it has lost the lock, and returns when that was.
func (c *Client) AwaitLoss(ctx context.Context, l Lease) (at int64, err error) {
	return ask[int64](ctx, c, "AwaitLoss", l)
}

// Read reads the stock, as the first step of a transaction that a [Write] ends.
func (c *Client) Read(ctx context.Context, what Read) (Reading, error) {
	return ask[Reading](ctx, c, "Read", what)
}

// Write takes one from the stock and commits.
func (c *Client) Write(ctx context.Context, what Write) error {
	_, err := ask[noResult](ctx, c, "Write", what)
	return err
}

// Sell places an order as the service does, under a lease or without one.
func (c *Client) Sell(ctx context.Context, what Sell) (Sold, error) {
	return ask[Sold](ctx, c, "Sell", what)
}

// Panic acquires and panics. The error is that of the acquisition.
func (c *Client) Panic(ctx context.Context, what Panic) (Panicked, error) {
	return ask[Panicked](ctx, c, "Panic", what)
}

// exit is how a process ended; at is 0 while it runs.
type exit struct {
	at     int64
	killed bool // by Kill
}

// pausePeriod is a time in which the process was paused; to is 0 while it is.
type pausePeriod struct{ from, to int64 }

// Pause stops the process (SIGSTOP), and returns when all of its threads are stopped.
func (c *Client) Pause() {
	c.t.Helper()
	c.process.Pause()
	select {
	case <-c.process.Done():
		c.t.Fatalf("lock client %s: pause: %v", c.config.Name, ErrDead)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped() {
		c.pauses = append(c.pauses, pausePeriod{from: time.Now().UnixNano()})
	}
}

// Resume continues a paused process.
func (c *Client) Resume() {
	c.mu.Lock()
	if c.stopped() {
		c.pauses[len(c.pauses)-1].to = time.Now().UnixNano()
	}
	c.mu.Unlock()
	c.process.Resume()
}

// Kill kills the process (SIGKILL) and returns when it has ended. Requests that are not answered by then return
// [ErrDead].
func (c *Client) Kill() {
	c.mu.Lock()
	if c.exit.at == 0 {
		c.exit = exit{at: time.Now().UnixNano(), killed: true}
	}
	c.mu.Unlock()
	c.process.Kill()
}

// Done is closed when the process has ended, killed by Kill or by a fault.
func (c *Client) Done() <-chan struct{} { return c.process.Done() }

// AddTo adds the client's events, death and pauses to the evidence.
func (c *Client) AddTo(evidence *judge.Evidence) {
	c.t.Helper()
	evidence.Events = append(evidence.Events, c.Events()...)
	c.addFaults(evidence)
}

// addSoFar does the same for an experiment that still runs, which nothing here may fail.
func (c *Client) addSoFar(evidence *judge.Evidence) {
	if data, err := os.ReadFile(c.config.EventFile); err == nil {
		events, _ := eventlog.Parse(data) // those before a broken line
		evidence.Events = append(evidence.Events, events...)
	}
	c.addFaults(evidence)
}

// addFaults adds the client's death and pauses.
func (c *Client) addFaults(evidence *judge.Evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit.at != 0 {
		evidence.Deaths = append(evidence.Deaths, judge.Death{Process: c.config.Name, At: c.exit.at})
	}
	for _, p := range c.pauses {
		if p.to == 0 {
			p.to = c.exit.at // 0 if it is still paused
		}
		evidence.Pauses = append(evidence.Pauses, judge.Pause{Process: c.config.Name, From: p.from, To: p.to})
	}
}

// noteExit records when the process ends.
func (c *Client) noteExit() {
	<-c.process.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit.at == 0 {
		c.exit.at = time.Now().UnixNano()
	}
}

// stopped reports whether the process is paused. The mutex is held.
func (c *Client) stopped() bool {
	return len(c.pauses) > 0 && c.pauses[len(c.pauses)-1].to == 0
}

// killedBySignal reports whether a process was ended by SIGKILL, as by a fault.
func killedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
