//go:build unix

package testkit

import "syscall"

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
