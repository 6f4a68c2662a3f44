package reentrant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors of the pipe itself.
var (
	// errNotSent: the command never left this process.
	errNotSent = errors.New("not sent")
	// errNoReply: the time was up before the reply came; the command may have run.
	errNoReply = errors.New("no reply in time")
	errClosed  = errors.New("the locker is closed")
)

// maxBatch is how many commands go out in one write. It bounds how long the first
// of them waits for the last.
const maxBatch = 64

// pipe sends commands in batches. A few workers each take whatever is waiting and
// write it as one pipeline: alone, a command goes out at once; under load one
// system call carries many, which is what makes a busy locker twice as fast.
//
// It also gives every command what go-redis cannot promise for every client: an
// end. The caller leaves with its context and the batch with its timeout, even if
// the connection hangs.
type pipe struct {
	client  Client
	timeout time.Duration
	queue   chan *call
	closed  chan struct{}
	workers sync.WaitGroup
}

// call is a command on its way.
type call struct {
	pipe *pipe
	ctx  context.Context
	cmd  once
	born time.Time
	done chan struct{} // closed once val and err are there

	val any
	err error
}

func newPipe(client Client, timeout time.Duration, workers int) *pipe {
	p := &pipe{
		client: client, timeout: timeout,
		queue:  make(chan *call, workers*maxBatch),
		closed: make(chan struct{}),
	}
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

// close ends the workers and what they have under way, and waits for them.
func (p *pipe) close() {
	close(p.closed)
	p.workers.Wait()
}

// send puts a command on its way. It ends at once where ctx or the pipe has ended.
func (p *pipe) send(ctx context.Context, cmd once) *call {
	c := &call{pipe: p, ctx: ctx, cmd: cmd, born: time.Now(), done: make(chan struct{})}
	select {
	case p.queue <- c:
	case <-ctx.Done():
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, ctx.Err()))
	case <-p.closed:
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, errClosed))
	}
	return c
}

// wait reports whether the call ended before ctx and the pipe did.
func (c *call) wait(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	case <-c.pipe.closed:
		return false
	}
}

func (c *call) end(val any, err error) {
	c.val, c.err = val, err
	close(c.done)
}

func (p *pipe) work() {
	batch := make([]*call, 0, maxBatch)
	for {
		select {
		case c := <-p.queue:
			batch = p.fill(append(batch[:0], c))
			p.exec(batch)
			clear(batch)
		case <-p.closed:
			p.refuse()
			return
		}
	}
}

// fill adds what is waiting already.
func (p *pipe) fill(batch []*call) []*call {
	for len(batch) < maxBatch {
		select {
		case c := <-p.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// refuse ends what was still waiting when the pipe closed.
func (p *pipe) refuse() {
	for _, c := range p.fill(nil) {
		c.end(nil, fmt.Errorf("%w: %w", errNotSent, errClosed))
	}
}

// exec sends a batch and ends each of its calls.
func (p *pipe) exec(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	line := p.client.Pipeline()
	sent := batch[:0]
	oldest := time.Now().Add(-p.timeout)
	for _, c := range batch {
		if err := c.ctx.Err(); err != nil {
			c.end(nil, fmt.Errorf("%w: %w", errNotSent, err))
			continue
		}
		if c.born.Before(oldest) { // the server hangs: nobody waits for more than one turn
			c.end(nil, fmt.Errorf("%w: no connection was free for %v", errNotSent, p.timeout))
			continue
		}
		_ = line.Process(ctx, c.cmd) // queues; its error comes with the command
		sent = append(sent, c)
	}
	if len(sent) == 0 {
		return
	}
	finished := make(chan struct{})
	p.workers.Go(func() {
		defer close(finished)
		_, _ = line.Exec(ctx) // each command has its own error
	})
	err := errNoReply
	select {
	case <-finished:
		for _, c := range sent {
			c.end(c.cmd.Val(), c.cmd.Err())
		}
		return
	case <-ctx.Done():
	case <-p.closed:
		err = fmt.Errorf("%w: %w", errNoReply, errClosed)
	}
	// The commands still belong to the pipeline: leave them alone.
	for _, c := range sent {
		c.end(nil, err)
	}
}

// Client is what a locker needs of go-redis. [redis.UniversalClient] has it: a
// single node, a sentinel's primary or a cluster.
type Client interface {
	// Pipeline sends commands together; in a cluster, to each node its own.
	Pipeline() redis.Pipeliner
	// Subscribe opens the shared pub/sub connection.
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}
