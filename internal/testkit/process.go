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

// Command describes a process to start. Only Path is required.
type Command struct {
	Path string
	Args []string
	Env  []string // added to the environment of the test, as NAME=value
	Dir  string   // where it runs; "" is where the test runs
	Root string   // run with chroot in this folder; Path and Dir are relative to it. Linux only, needs root
	// Unprivileged has another user run it if the test is root, for a program that refuses root.
	Unprivileged bool

	// Stdin is its standard input; nil means none. Stdout receives all of its standard output before the process counts
	// as ended; nil means [Process.Output], together with stderr.
	Stdin  *os.File
	Stdout io.Writer
}

// Process is a running child process in a group of its own. Signals go to the whole group.
type Process struct {
	t      TB // of Start; nil for a server, whose methods name their own
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when the process has ended and its output is complete
	err    error         // of Wait; valid once done is closed
}

const (
	// readyTimeout is how long a process may take to become ready or to print an awaited line. It is generous: it is
	// only reached when something is wrong, and a loaded machine is not wrong.
	readyTimeout = 60 * time.Second
	// stopGrace is how long Stop waits after SIGTERM.
	stopGrace = 20 * time.Second
	// shownLines is how much of a process' output a failed test shows. More would hide why it failed.
	shownLines = 40
	// pollEvery is the pause between two polls.
	pollEvery = 10 * time.Millisecond
)

// Start starts a process. At the end of the test it is killed, if it is still running; if the test failed, its output
// is logged.
func Start(t TB, c Command) *Process {
	t.Helper()
	p, err := start(c)
	check(t, err)
	p.t = t
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			p.logOutput(t, c.Path)
		}
	})
	return p
}

// logOutput shows the end of what the process has printed.
func (p *Process) logOutput(t TB, of string) {
	t.Helper()
	t.Logf("output of %s (process %d):\n%s", of, p.PID(), p.output.tail(shownLines))
}

func start(c Command) (*Process, error) {
	if err := allowed(); err != nil {
		return nil, err
	}
	j, err := binary.startedReaper()
	if err != nil {
		return nil, err
	}
	p := &Process{output: newOutput(), done: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Dir = c.Dir
	p.cmd.SysProcAttr = childAttributes(c.Root)
	if c.Unprivileged {
		asNobody(p.cmd.SysProcAttr)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if c.Stdin != nil { // a nil *os.File in the interface would not be nil
		p.cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	p.cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open must not block Wait
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	if err := j.addGroup(p.PID()); err != nil {
		return nil, errors.Join(err, signalGroup(p.PID(), sigKill), p.cmd.Wait())
	}
	go func() {
		p.err = p.cmd.Wait()
		// An error here means that the reaper has died, and its lists with it.
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

// StopReading leaves what the process prints unread until resume is called, as a log driver that hangs does: once a
// pipe is full, the process' writes to it block.
func (p *Process) StopReading() (resume func()) {
	p.output.reading.Lock()
	return p.output.reading.Unlock
}

// Output returns the latest megabyte that the process has printed, stdout and stderr together.
func (p *Process) Output() string {
	text, _ := p.output.read()
	return text
}

// Wait waits for the end of the process. The error is that of [exec.Cmd.Wait]: nil for exit code 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill sends SIGKILL and waits until the process and its group have ended.
func (p *Process) Kill() {
	p.signal(sigKill)
	<-p.done
}

// Stop sends SIGTERM, waits, and returns the result of Wait: nil for exit code 0. A process that does not end within 20
// seconds is killed, which is an error.
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

// Pause stops the process at any instruction (SIGSTOP), like a long garbage collection or a suspended machine. It
// returns when no thread runs any more, or when the process has ended.
func (p *Process) Pause() {
	p.t.Helper()
	p.pause(p.t)
}

// pause waits for the threads, because one of them has to run before the signal reaches the others. Until then, which
// is milliseconds on a busy machine, a server goes on to answer.
func (p *Process) pause(t TB) {
	t.Helper()
	p.signal(sigStop)
	Until(t, "all threads of a paused process have stopped", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return allStopped(p.PID())
		}
	})
}

// Resume continues a paused process (SIGCONT).
func (p *Process) Resume() { p.signal(sigCont) }

// signal does nothing after the end of the process: its id may belong to another one by then.
func (p *Process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		// The only possible error is that the group has just ended.
		_ = signalGroup(p.PID(), sig)
	}
}

// WaitLine waits until the process has printed a line that matches the regular expression, and returns its submatches
// as [regexp.Regexp.FindStringSubmatch] does. The test fails if the process ends without such a line, or after a
// minute.
func (p *Process) WaitLine(t TB, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(readyTimeout)
	for {
		ended := p.ended() // before match, so that the last output is still seen
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
			t.Fatalf("testkit: no line that matches %q within %v; the process printed:\n%s", pattern, readyTimeout, p.output.tail(50))
		}
	}
}

// WaitHTTP waits until a GET of the url returns 200. The test fails if the process ends before that, or after a minute.
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

var errEnded = errors.New("the process ended before it was ready")

// waitReady polls until ready returns nil. It fails when the process ends (errEnded, and [syscall.EADDRINUSE] if its
// output says so) or after readyTimeout. The error includes the end of the output.
func (p *Process) waitReady(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
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
			return fmt.Errorf("not ready within %v: %w; the process printed:\n%s", readyTimeout, err, p.output.tail(50))
		case <-time.After(pollEvery):
		}
	}
}

// whileAlive returns a context that ends with the process: after that, another process may answer on its port.
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

// whyEnded derives the error from the output, which is all that remains of a server that could not bind. Every server
// here prints the system's error text, some with a capital letter.
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
