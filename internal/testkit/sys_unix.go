//go:build unix

package testkit

import (
	"os"
	"os/signal"
	"syscall"
)

const (
	sigKill = syscall.SIGKILL
	sigTerm = syscall.SIGTERM
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// signalGroup sends a signal to every process of a group. A group that has ended is not an error.
func signalGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); err != syscall.ESRCH {
		return err
	}
	return nil
}

// NotifyResumed returns a channel that is sent to each time [Process.Resume] continues this process. A child of a test
// that waits for it is certain to be paused in the middle of what it was doing.
func NotifyResumed() <-chan os.Signal {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, sigCont)
	return resumed
}
