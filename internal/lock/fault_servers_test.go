package lock_test

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// dies passes a fault that kills its process.
func dies() int {
	faults, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterCommit, Effect: lock.EffectKill}}, nil)
	if err == nil {
		_ = faults.Pass(context.Background(), lock.AfterCommit)
	}
	return 1
}

func TestFaultKills(t *testing.T) {
	exit, ok := errors.AsType[*exec.ExitError](testkit.StartChild(t, "dies").Wait())
	if !ok {
		t.Fatal("the child ended without an error")
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("the child ended with %v, want SIGKILL", exit)
	}
}
