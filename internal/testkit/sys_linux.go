package testkit

import "syscall"

// ownGroup puts a child into a process group of its own: the terminal's Ctrl-C does not reach it, and one signal to the
// group reaches its own children too.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// childAttributes additionally makes the kernel kill the child when this process dies, and runs it by chroot where root
// is given. The death signal follows the thread that forked, not the process; Go ends a thread only when a goroutine
// returns that is still locked to it, which no test here does. A server that changed its user would lose the signal: that
// is why they all run as the user of the test.
func childAttributes(root string) *syscall.SysProcAttr {
	a := ownGroup()
	a.Pdeathsig = syscall.SIGKILL
	a.Chroot = root
	return a
}
