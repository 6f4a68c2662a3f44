package lockjudge

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// trialTB is what package locktest needs of a test, outside of one. Its other methods are not called, and would panic.
type trialTB struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	cleanups []func()
	err      error
}

func (t *trialTB) Helper()                  {}
func (t *trialTB) Name() string             { return "judge" }
func (t *trialTB) Logf(string, ...any)      {}
func (t *trialTB) Log(...any)               {}
func (t *trialTB) Context() context.Context { return t.ctx }
func (t *trialTB) Failed() bool             { return t.failure() != nil }

func (t *trialTB) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *trialTB) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *trialTB) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit() // as a test's: the trial's goroutine ends, and its deferred calls run
}

func (t *trialTB) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// end runs the cleanups, the last one first.
func (t *trialTB) end() {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		last()
	}
}
