package testbed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

func TestEndOfContextEndsARush(t *testing.T) {
	for name, in := range map[string]*testbed.Environment{"real": env, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var cut *testkit.Stopwatch
			skipped, err := in.Run(ctx, t.Name(), nil, func(r *testbed.Run) {
				p := policy("lua")
				p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 8000}}
				sale := r.Sale(p, 5, r.API(0))
				sale.Observe()
				wait := sale.StartLoad(load.Load{Buyers: 10})
				sale.Await("somebody is inside", func(e eventlog.Event) bool { return e.Kind == eventlog.Acquired })
				cut = testkit.StartStopwatch()
				cancel()
				wait()
			})
			if !errors.Is(err, context.Canceled) || !skipped.IsZero() {
				t.Errorf("skipped %q, err = %v", skipped, err)
			}
			if took := cut.Stop(); took > 4*time.Second {
				t.Errorf("the end took %v", took)
			}
		})
	}
}

const asChild = "SECKILL_TEST_STAGE_CHILD"

// A laboratory that is killed leaves neither processes nor folders.
func TestNothingStaysOfALaboratoryThatIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := testkit.Start(t, testkit.Command{Path: self, Args: []string{"-test.run=^TestLaboratoryToBeKilled$"}, Env: []string{asChild + "=1"}})
	fields := strings.Fields(child.WaitLine(t, `^plays (.*)$`)[1])
	folder, pids := fields[0], fields[1:]
	child.Kill()
	gone := func() error {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there: %w", folder, err)
		}
		for _, text := range pids {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
				return fmt.Errorf("process %d is still there", pid)
			}
		}
		return nil
	}
	deadline := time.Now().Add(time.Minute)
	for err := gone(); err != nil; err = gone() {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// zombie reports whether a process has ended and only its entry is left, because its new
// parent does not wait for it.
func zombie(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// TestLaboratoryToBeKilled runs as a child; by itself it does nothing.
func TestLaboratoryToBeKilled(t *testing.T) {
	if os.Getenv(asChild) == "" {
		return
	}
	runScenario(t, embedded, nil, func(r *testbed.Run) {
		api := r.API(1)
		sale := r.Sale(policy("naive"), 1, api)
		sale.Buy(r.Context(), api[0], 1)
		fmt.Printf("plays %s %d\n", testbed.Folder(embedded), testbed.PID(api[0]))
		<-r.Context().Done()
	})
}
