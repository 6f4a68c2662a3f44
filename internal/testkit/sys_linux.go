package testkit

import "syscall"

// ownGroup puts a child into its own process group. The terminal's Ctrl-C does not reach it, and a signal
// to the group reaches its own children, too.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// childAttributes also makes the kernel kill the child when this process dies, and sets its root folder.
// The death signal depends on the thread that forked, not on the process. Go ends a thread only when a
// goroutine returns that is locked to it, which no test here does. A server that changes its user loses
// the signal, so all of them run as the user of the test.
func childAttributes(root string) *syscall.SysProcAttr {
	a := ownGroup()
	a.Pdeathsig = syscall.SIGKILL
	a.Chroot = root
	return a
}
