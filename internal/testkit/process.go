package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Command says what to start. Only Path is needed.
type Command struct {
	Path string
	Args []string
	Env  []string // added to the environment of the test, as NAME=value
	Dir  string   // where it runs; "" is where the test runs
	Root string   // run by chroot in this folder; Path and Dir are then seen from inside it. Linux only, needs root

	// Stdin is what it reads; nil is nothing. Stdout is where its standard output goes, all of it before the process counts
	// as ended; nil is [Process.Output], beside stderr.
	Stdin  *os.File
	Stdout io.Writer
}

// Process is a running child process in a group of its own. Signals go to the whole group.
type Process struct {
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when the process has ended and its output is complete
	err    error         // of Wait; valid once done is closed
}

const (
	// patience is how long a process may take to become ready or to print an awaited line. Generous, because it is spent
	// only when something is wrong, and a loaded machine is not wrong.
	patience = 60 * time.Second
	// stopGrace is how long Stop waits after SIGTERM.
	stopGrace = 20 * time.Second
	// pollEvery is the pause between two looks at something that does not announce itself.
	pollEvery = 10 * time.Millisecond
)

// Start starts a process. It is killed when the test ends, if it is still there then; what it printed is shown if the
// test failed.
func Start(t TB, c Command) *Process {
	t.Helper()
	p, err := start(c)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s (process %d):\n%s", c.Path, p.PID(), p.output.tail(200))
		}
	})
	return p
}

func start(c Command) (*Process, error) {
	j, err := binary.watch()
	if err != nil {
		return nil, err
	}
	p := &Process{output: newOutput(), done: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Dir = c.Dir
	p.cmd.SysProcAttr = childAttributes(c.Root)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if c.Stdin != nil { // a nil *os.File in the interface would not be nil
		p.cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	p.cmd.WaitDelay = time.Second // a grandchild that holds the pipe open must not hold up Wait
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	if err := j.addGroup(p.PID()); err != nil {
		return nil, errors.Join(err, signalGroup(p.PID(), sigKill), p.cmd.Wait())
	}
	go func() {
		p.err = p.cmd.Wait()
		// A failure here means that the janitor is gone, and with it the list that the process would be taken off.
		_ = signalGroup(p.PID(), sigKill)
		_ = j.dropGroup(p.PID())
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id, which is the id of its group too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output returns the newest megabyte of what the process has printed so far, stdout and stderr in one.
func (p *Process) Output() string {
	text, _ := p.output.read()
	return text
}

// Wait waits for the end of the process. The error is that of [exec.Cmd.Wait]: nil for exit code 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill sends SIGKILL and waits for the end: when Kill returns, the process and its group are gone.
func (p *Process) Kill() {
	p.signal(sigKill)
	<-p.done
}

// Stop asks politely (SIGTERM), waits, and returns what Wait returns: nil when the process ended with exit code 0. It
// kills a process that does not end within 20 seconds and says so in the error.
func (p *Process) Stop() error {
	p.signal(sigTerm)
	p.signal(sigCont) // a paused process takes no SIGTERM
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopGrace):
		p.Kill()
		return fmt.Errorf("process %d was still there %v after SIGTERM and was killed", p.PID(), stopGrace)
	}
}

// Terminate sends SIGTERM and does not wait.
func (p *Process) Terminate() { p.signal(sigTerm) }

// Pause stops the process where it stands (SIGSTOP), as a long garbage collection or a suspended machine would.
func (p *Process) Pause() { p.signal(sigStop) }

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() { p.signal(sigCont) }

// signal does nothing once the process has ended: its id may be somebody else's by then.
func (p *Process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		// The one possible error here is that the group has just gone.
		_ = signalGroup(p.PID(), sig)
	}
}

// WaitLine waits until the process has printed a line that matches the regular expression, and returns the line's
// submatches as [regexp.Regexp.FindStringSubmatch] does. The test fails when the process ends without it, or after a
// minute.
func (p *Process) WaitLine(t TB, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		ended := p.ended() // before the look: what is printed last is still seen
		found, more := p.output.match(re)
		if found != nil {
			return found
		}
		if ended {
			t.Fatalf("testkit: process ended (%v) without a line that matches %q; it printed:\n%s", p.err, pattern, p.output.tail(50))
		}
		select {
		case <-more:
		case <-p.done:
		case <-timeout:
			t.Fatalf("testkit: no line that matches %q within %v; the process printed:\n%s", pattern, patience, p.output.tail(50))
		}
	}
}

// WaitHTTP waits until a GET of the url is answered with 200. The test fails when the process ends before, or after a
// minute.
func (p *Process) WaitHTTP(t TB, url string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := p.waitReady(func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
}

// errEnded says that a process ended before it was ready.
var errEnded = errors.New("the process ended before it was ready")

// waitReady polls until ready returns nil. It gives up when the process ends (errEnded, and [syscall.EADDRINUSE] where it
// said so) or after patience; the error then carries the end of what the process printed.
func (p *Process) waitReady(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	alive, ended := p.whileAlive(ctx)
	defer ended()
	for {
		err := ready(alive)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w (%v); it printed:\n%s", p.whyEnded(), p.cmd.ProcessState, p.output.tail(50))
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w; the process printed:\n%s", patience, err, p.output.tail(50))
		case <-time.After(pollEvery):
		}
	}
}

// whileAlive returns a context that ends with the process: whoever answers on its port then, or keeps silent, is a stranger.
func (p *Process) whileAlive(ctx context.Context) (alive context.Context, cancel context.CancelFunc) {
	alive, cancel = context.WithCancel(ctx)
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-alive.Done():
		}
	}()
	return alive, cancel
}

// whyEnded reads what the process printed: that is all it leaves behind when it could not bind. Every server here prints
// the system's words for it, some with a capital letter.
func (p *Process) whyEnded() error {
	if strings.Contains(strings.ToLower(p.Output()), syscall.EADDRINUSE.Error()) {
		return fmt.Errorf("%w: %w", errEnded, syscall.EADDRINUSE)
	}
	return errEnded
}

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
