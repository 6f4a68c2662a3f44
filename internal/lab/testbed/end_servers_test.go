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

	"seckill/internal/eventlog"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

func TestEndOfContextEndsARush(t *testing.T) {
	testkit.Servers(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	skipped, err := embedded.Run(ctx, t.Name(), nil, func(r *testbed.Run) {
		p := policy("lua")
		p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 8000}}
		sale := r.Sale(p, 5, r.API(0))
		sale.Observe()
		wait := sale.StartLoad(load.Load{Buyers: 10})
		sale.Await("somebody is inside", func(e eventlog.Event) bool { return e.Kind == eventlog.Acquired })
		cancel()
		wait()
	})
	if !errors.Is(err, context.Canceled) || !skipped.IsZero() {
		t.Errorf("skipped %q, err = %v", skipped, err)
	}
}

// A laboratory that is killed leaves neither processes nor folders.
func TestNothingStaysOfALaboratoryThatIsKilled(t *testing.T) {
	child := testkit.StartChild(t, "laboratory")
	fields := strings.Fields(child.WaitLine(t, `^plays (.*)$`)[1])
	folder, pids := fields[0], fields[1:]
	child.Kill()
	testkit.Until(t, folder+" to be removed", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "process "+text+" to end", func() bool { return syscall.Kill(pid, 0) != nil || zombie(text) })
	}
}

// zombie reports whether a process has ended and only its entry is left, because its new
// parent does not wait for it.
func zombie(pid string) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// playUntilKilled runs in a child: a laboratory in the middle of an experiment.
func playUntilKilled() int {
	lab, err := testbed.Open(context.Background(), testbed.Options{Embedded: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = lab.Run(context.Background(), "killed", nil, func(r *testbed.Run) {
		api := r.API(1)
		sale := r.Sale(policy("naive"), 1, api)
		sale.Buy(r.Context(), api[0], 1)
		fmt.Printf("plays %s %d\n", testbed.Folder(lab), testbed.PID(api[0]))
		<-r.Context().Done()
	})
	fmt.Println(err)
	return 1
}
