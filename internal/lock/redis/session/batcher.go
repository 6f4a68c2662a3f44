package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/redisscript"
)

// Errors of the batcher itself.
var (
	// errNotSent: the command never left this process.
	errNotSent = errors.New("not sent")
	// errNoReply: the timeout passed before the reply came; the command may have run.
	errNoReply = errors.New("no reply in time")
	errClosed  = errors.New("the locker is closed")
)

// maxBatch is how many commands go out in one write. It bounds how long the first of them waits for the last.
const maxBatch = 64

// batcher sends commands, in batches where there are several. Each of a few workers takes all queued commands and sends
// them as one pipeline. Under load one system call carries many, which makes a busy locker twice as fast. A caller that
// finds no command under way sends its own (direct.go).
//
// It also guarantees that every command ends, which go-redis cannot do for every client. The caller leaves with its
// context and the batch with its timeout, even if the connection hangs; another worker then replaces the one that
// hangs.
type batcher struct {
	client  Client
	timeout time.Duration
	direct  time.Duration // how long a command may take that its caller sends; 0: none does
	fast    atomic.Bool   // the last round trip was a short one
	pending atomic.Int32  // commands that were given to the batcher and have not ended
	limit   *directLimit  // of the caller that sends the only pending command
	queue   chan *call
	closed  chan struct{}
	workers sync.WaitGroup
	closing context.Context // of the commands under way
	cancel  context.CancelFunc
}

// call is a command that was given to the batcher.
type call struct {
	batcher *batcher
	ctx     context.Context
	cmd     redisscript.Cmd
	queued  time.Time
	done    chan struct{} // closed once val and err are set

	val any
	err error
	cut bool // its caller sent it and stopped to wait for the reply
}

func newBatcher(client Client, timeout time.Duration, workers int) *batcher {
	b := &batcher{
		client: client, timeout: timeout, direct: directTimeout(client, timeout),
		queue:  make(chan *call, workers*maxBatch),
		closed: make(chan struct{}),
	}
	b.closing, b.cancel = context.WithCancel(context.Background())
	for range workers {
		b.workers.Go(b.work)
	}
	return b
}

// close ends the workers and the commands under way, and waits for them.
func (b *batcher) close() {
	close(b.closed)
	b.cancel()
	b.workers.Wait()
}

// send queues a command. The call ends at once where ctx or the batcher has ended.
func (b *batcher) send(ctx context.Context, cmd redisscript.Cmd) *call {
	c := &call{batcher: b, ctx: ctx, cmd: cmd, queued: time.Now(), done: make(chan struct{})}
	b.pending.Add(1)
	select {
	case b.queue <- c:
		return c
	default: // full
	}
	select {
	case b.queue <- c:
	case <-ctx.Done():
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, ctx.Err()))
	case <-b.closed:
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, errClosed))
	}
	return c
}

// wait reports whether the call ended before ctx and the batcher did.
func (c *call) wait(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	default:
	}
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	case <-c.batcher.closed:
		return false
	}
}

func (c *call) end(val any, err error) {
	c.batcher.pending.Add(-1)
	c.val, c.err = val, err
	close(c.done)
}

// work is one worker. It ends when the batcher is closed, or after a batch that hung for so long that another worker
// replaced this one.
func (b *batcher) work() {
	for {
		select {
		case c := <-b.queue:
			if !b.exec(b.fill(append(make([]*call, 0, 8), c))) {
				return
			}
		case <-b.closed:
			b.refuseQueued()
			return
		}
	}
}

// fill adds the calls that are queued already.
func (b *batcher) fill(batch []*call) []*call {
	for len(batch) < maxBatch {
		select {
		case c := <-b.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// refuseQueued ends the calls that were still queued when the batcher was closed.
func (b *batcher) refuseQueued() {
	for _, c := range b.fill(nil) {
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, errClosed))
	}
}

// exec sends a batch and ends each of its calls. It reports false where the batch timed out and another worker took
// over.
func (b *batcher) exec(batch []*call) bool {
	sent := batch[:0]
	oldest := time.Now().Add(-b.timeout)
	pipeline := b.client.Pipeline()
	for _, c := range batch {
		if err := c.ctx.Err(); err != nil {
			c.end(nil, fmt.Errorf("%w: %w", errNotSent, err))
			continue
		}
		if c.queued.Before(oldest) { // the server hangs: no call waits for more than one timeout
			c.end(nil, fmt.Errorf("%w: no connection was free for %v", errNotSent, b.timeout))
			continue
		}
		_ = pipeline.Process(b.closing, c.cmd) // only queues it; an error comes with the command
		sent = append(sent, c)
	}
	if len(sent) == 0 {
		return true
	}
	var over atomic.Bool
	giveUp := time.AfterFunc(b.timeout, func() {
		if !over.CompareAndSwap(false, true) {
			return
		}
		// The pipeline still uses the commands: do not read them.
		for _, c := range sent {
			c.end(nil, errNoReply)
		}
		b.replaceWorker()
	})
	ctx, cancel := context.WithTimeout(b.closing, b.timeout)
	start := time.Now()
	_, _ = pipeline.Exec(ctx) // each command has its own error
	b.fast.Store(time.Since(start) < fastRoundTrip)
	cancel()
	giveUp.Stop()
	if !over.CompareAndSwap(false, true) {
		return false
	}
	for _, c := range sent {
		c.end(c.cmd.Val(), c.cmd.Err())
	}
	return true
}

// replaceWorker starts a worker in place of one that hangs. The hanging one still counts, so that not all workers can
// have ended before the batcher is closed.
func (b *batcher) replaceWorker() {
	select {
	case <-b.closed:
	default:
		b.workers.Go(b.work)
	}
}
