package lockjudge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"seckill/internal/lab/lockjudge/wire"
	"seckill/internal/lock"
)

// openLimit is how long a program may take until it has opened its lock.
const openLimit = 20 * time.Second

// program is one run of the lock's program.
type program struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when it has ended
	// renewed is the lease that the lock renews; 0 if it has no watchdog.
	renewed time.Duration
	// leavesOut are the behaviours that the lock does not promise.
	leavesOut []string
	error     tail // of its standard error

	mu      sync.Mutex
	last    int64
	pending map[int64]chan wire.Reply
	leases  map[string]*lease
	gone    map[string]string // leases whose loss was told before their grant was read
}

// start runs the command and opens the lock on a server.
func start(ctx context.Context, command []string, redis string, watchdog time.Duration) (*program, error) {
	p := &program{
		//nolint:gosec,noctx // the caller's own program; kill ends it
		cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{}),
		pending: map[int64]chan wire.Reply{}, leases: map[string]*lease{}, gone: map[string]string{},
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.cmd.Stderr = in, &p.error
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	reply, err := p.ask(ctx, wire.Request{Do: wire.Open, Redis: redis, WatchdogMS: watchdog.Milliseconds()})
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error + ": " + reply.Text)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("the lock's program does not open: %w\n%s", err, p.error.String())
	}
	p.renewed, p.leavesOut = time.Duration(reply.WatchdogMS)*time.Millisecond, reply.LeavesOut
	return p, nil
}

// read takes the program's lines until its end.
func (p *program) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r wire.Reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			_, _ = fmt.Fprintf(&p.error, "%q is no line of the protocol: %v\n", lines.Text(), err) // a tail takes everything
			continue
		}
		p.take(r)
	}
	_ = p.cmd.Wait() // how it ended does not matter: its calls fail
	close(p.ended)
}

func (p *program) take(r wire.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Lost != "" {
		if l := p.leases[r.Lost]; l != nil {
			go l.lose(r.Error)
		} else {
			p.gone[r.Lost] = r.Error
		}
		return
	}
	if answer := p.pending[r.ID]; answer != nil {
		delete(p.pending, r.ID)
		answer <- r // it has room for one
	}
}

// answerLimit is how long a program may take for an answer, beyond the wait limit of an acquisition.
const answerLimit = 5 * time.Second

// errSilent means that a program did not answer.
var errSilent = errors.New("no answer")

// errEnded means that the lock's program has ended by itself.
var errEnded = errors.New("the lock's program has ended")

// cancelLimit is how long a program may take to clean up after a caller that has gone.
const cancelLimit = lock.ReleaseTimeout + time.Second

// ask sends a request and waits for its answer. When ctx ends, an acquisition is cancelled, and the program has some
// time to clean up; if it is granted all the same, it is released.
func (p *program) ask(ctx context.Context, r wire.Request) (wire.Reply, error) {
	answer := make(chan wire.Reply, 1)
	p.mu.Lock()
	p.last++
	r.ID = p.last
	p.pending[r.ID] = answer
	err := p.send(r)
	p.mu.Unlock()
	if err != nil {
		return wire.Reply{}, fmt.Errorf("%w: %w", errEnded, err)
	}
	longest := answerLimit + time.Duration(r.WaitMS)*time.Millisecond
	if r.Do == wire.Open {
		longest = openLimit
	}
	limit := time.NewTimer(longest)
	defer limit.Stop()
	select {
	case reply := <-answer:
		return reply, nil
	case <-p.ended:
		return wire.Reply{}, fmt.Errorf("%w: %s", errEnded, p.error.String())
	case <-limit.C:
		return wire.Reply{}, fmt.Errorf("%w within %v", errSilent, longest)
	case <-ctx.Done():
	}
	if r.Do == wire.Acquire {
		p.takeBack(r.ID, answer)
	}
	return wire.Reply{}, ctx.Err()
}

// takeBack cancels an acquisition, and releases what it was granted.
func (p *program) takeBack(id int64, answer <-chan wire.Reply) {
	p.mu.Lock()
	_ = p.send(wire.Request{Do: wire.Cancel, Of: id}) // it may have ended
	p.mu.Unlock()
	limit := time.NewTimer(cancelLimit)
	defer limit.Stop()
	select {
	case reply := <-answer:
		if reply.Lease == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
		defer cancel()
		_, _ = p.ask(ctx, wire.Request{Do: wire.Release, Lease: reply.Lease}) // nobody is left to tell
	case <-p.ended:
	case <-limit.C:
	}
}

// send writes a line. The mutex is held.
func (p *program) send(r wire.Request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(line, '\n'))
	return err
}

// kill ends the program as SIGKILL does: it releases nothing.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	const most = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// errorOf is the error of a reply; nil if it has none.
func errorOf(r wire.Reply, key string) error {
	known := map[string]error{
		wire.NotHeld: lock.ErrNotHeld, wire.Expired: lock.ErrExpired, wire.Lost: lock.ErrLost,
		wire.Unavailable: lock.ErrUnavailable, wire.Invalid: lock.ErrInvalid, wire.Cancelled: context.Canceled,
	}
	switch err := known[r.Error]; {
	case r.Error == "":
		return nil
	case r.Error == wire.NotAcquired:
		return &lock.NotAcquiredError{Key: key, Holder: lock.Owner(r.Holder)}
	case err != nil && r.Text != "":
		return fmt.Errorf("%w (%s)", err, r.Text)
	case err != nil:
		return err
	}
	return errors.New(r.Error + ": " + r.Text)
}

// tokenOf reads a fencing token; 0 if there is none.
func tokenOf(r wire.Reply) uint64 {
	token, err := strconv.ParseUint(r.Token, 10, 64)
	if err != nil {
		return 0
	}
	return token
}
