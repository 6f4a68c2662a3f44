package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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
// the connection hangs; another worker then takes the place of the one that does.
type pipe struct {
	client  Client
	timeout time.Duration
	queue   chan *call
	closed  chan struct{}
	workers sync.WaitGroup
	closing context.Context // of what is under way
	cancel  context.CancelFunc
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
	p.closing, p.cancel = context.WithCancel(context.Background())
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

// close ends the workers and what they have under way, and waits for them.
func (p *pipe) close() {
	close(p.closed)
	p.cancel()
	p.workers.Wait()
}

// send puts a command on its way. It ends at once where ctx or the pipe has ended.
func (p *pipe) send(ctx context.Context, cmd once) *call {
	c := &call{pipe: p, ctx: ctx, cmd: cmd, born: time.Now(), done: make(chan struct{})}
	select {
	case p.queue <- c:
		return c
	default: // full
	}
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
	default:
	}
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

// work is a worker. It ends with the pipe, or when a batch of its hung for so long
// that another worker was put in its place.
func (p *pipe) work() {
	for {
		select {
		case c := <-p.queue:
			if !p.exec(p.fill(append(make([]*call, 0, 8), c))) {
				return
			}
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

// exec sends a batch and ends each of its calls. It reports false where the batch
// was given up before: its calls have ended then, and so has the worker.
func (p *pipe) exec(batch []*call) bool {
	sent := batch[:0]
	oldest := time.Now().Add(-p.timeout)
	line := p.client.Pipeline()
	for _, c := range batch {
		if err := c.ctx.Err(); err != nil {
			c.end(nil, fmt.Errorf("%w: %w", errNotSent, err))
			continue
		}
		if c.born.Before(oldest) { // the server hangs: nobody waits for more than one turn
			c.end(nil, fmt.Errorf("%w: no connection was free for %v", errNotSent, p.timeout))
			continue
		}
		_ = line.Process(p.closing, c.cmd) // queues; its error comes with the command
		sent = append(sent, c)
	}
	if len(sent) == 0 {
		return true
	}
	var over atomic.Bool
	giveUp := time.AfterFunc(p.timeout, func() {
		if !over.CompareAndSwap(false, true) {
			return
		}
		// The commands still belong to the pipeline: leave them alone.
		for _, c := range sent {
			c.end(nil, errNoReply)
		}
		p.replace()
	})
	ctx, cancel := context.WithTimeout(p.closing, p.timeout)
	_, _ = line.Exec(ctx) // each command has its own error
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

// replace starts a worker instead of one that hangs. That one still counts, so that
// workers cannot all have ended before the pipe is closed.
func (p *pipe) replace() {
	select {
	case <-p.closed:
	default:
		p.workers.Go(p.work)
	}
}
