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

// nobody is the user of a process that must not be root.
const nobody = 65534

// asNobody takes root's privileges from a child.
func asNobody(a *syscall.SysProcAttr) {
	if os.Geteuid() == 0 {
		a.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// signalGroup sends a signal to every process of a group. A group that has ended is not an error.
func signalGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); err != syscall.ESRCH {
		return err
	}
	return nil
}

// NotifyResumed returns a channel that receives a signal whenever [Process.Resume] continues this process. A test's
// child process that waits for the signal in the middle of its work is certain to have been paused there.
func NotifyResumed() <-chan os.Signal {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, sigCont)
	return resumed
}
