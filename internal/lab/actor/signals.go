package actor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"seckill/internal/lab/judge"
)

// fate is how a process ended; at is 0 while it has not.
type fate struct {
	at     int64
	killed bool // by Kill
}

// span is a time in which the process stood still; to is 0 while it does.
type span struct{ from, to int64 }

// Pause stops the process where it stands (SIGSTOP), and returns when all of its
// threads do.
func (a *Actor) Pause() {
	a.t.Helper()
	a.process.Pause()
	ctx, cancel := context.WithTimeout(a.t.Context(), pausePatience)
	defer cancel()
	if err := a.awaitStop(ctx); err != nil {
		a.t.Fatalf("actor %s: pause: %v", a.config.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stopped() {
		a.pauses = append(a.pauses, span{from: time.Now().UnixNano()})
	}
}

// Resume lets a paused process go on.
func (a *Actor) Resume() {
	a.mu.Lock()
	if a.stopped() {
		a.pauses[len(a.pauses)-1].to = time.Now().UnixNano()
	}
	a.mu.Unlock()
	a.process.Resume()
}

// Kill kills the process (SIGKILL) and returns when it is gone. Requests that have no
// answer by then get [ErrDead].
func (a *Actor) Kill() {
	a.mu.Lock()
	if a.fate.at == 0 {
		a.fate = fate{at: time.Now().UnixNano(), killed: true}
	}
	a.mu.Unlock()
	a.process.Kill()
}

// Done is closed when the process has ended, killed by Kill or by a fault.
func (a *Actor) Done() <-chan struct{} { return a.process.Done() }

// AddTo adds what the actor did and what was done to it.
func (a *Actor) AddTo(evidence *judge.Evidence) {
	a.t.Helper()
	evidence.Events = append(evidence.Events, a.Events()...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fate.at != 0 {
		evidence.Deaths = append(evidence.Deaths, judge.Death{Process: a.config.Name, At: a.fate.at})
	}
	for _, p := range a.pauses {
		if p.to == 0 {
			p.to = a.fate.at // 0 where it still stands
		}
		evidence.Pauses = append(evidence.Pauses, judge.Pause{Process: a.config.Name, From: p.from, To: p.to})
	}
}

// watch notes when the process ends.
func (a *Actor) watch() {
	<-a.process.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fate.at == 0 {
		a.fate.at = time.Now().UnixNano()
	}
}

// stopped is called with the mutex held.
func (a *Actor) stopped() bool {
	return len(a.pauses) > 0 && a.pauses[len(a.pauses)-1].to == 0
}

// awaitStop waits until every thread is stopped.
func (a *Actor) awaitStop(ctx context.Context) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		running, err := running(a.PID())
		if err == nil && running == 0 {
			return nil
		}
		select {
		case <-a.process.Done():
			return ErrDead
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d threads still run: %w", running, ctx.Err()), err)
		case <-look.C:
		}
	}
}

// running counts the threads of a process that are not stopped. Without /proc there
// is nothing to count: the signal was sent, and that is all there is to know.
func running(pid int) (int, error) {
	if _, err := os.Stat("/proc/self/task"); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "stat"))
		if err != nil {
			return 0, err
		}
		// "pid (name) state …"; the name may have anything in it.
		_, state, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte{' '})
		if !ok || len(state) == 0 || state[0] != 'T' {
			n++
		}
	}
	return n, nil
}

// diedOfKill says whether a process was ended by SIGKILL, as a fault does it.
func diedOfKill(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
