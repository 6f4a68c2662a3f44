package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ownGroup puts a child into its own process group. The terminal's Ctrl-C does not reach it, and a signal to the group
// reaches its own children, too.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// childAttributes also makes the kernel kill the child when this process dies, and sets its root folder. The death
// signal depends on the thread that forked, not on the process. Go ends a thread only when a goroutine returns that is
// locked to it, which no test here does. A server that changes its user loses the signal, so all of them run as the
// user of the test.
func childAttributes(root string) *syscall.SysProcAttr {
	a := ownGroup()
	a.Pdeathsig = syscall.SIGKILL
	a.Chroot = root
	return a
}

// allStopped reports whether no thread of a process can run any more. A thread that waits in the kernel (state D) stops
// before it returns to the program, once the stop has begun: the first stopped thread shows that. It may wait for as
// long as the process is paused: a shell waits like this for a child that it has just forked and that is stopped, too.
func allStopped(pid int) bool {
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return false
	}
	begun := len(threads) == 1
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "stat"))
		if err != nil {
			return false
		}
		// "pid (name) state …"; the name may have anything in it.
		_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte{' '})
		switch state, _, _ := bytes.Cut(rest, []byte{' '}); string(state) {
		case "T":
			begun = true
		case "D":
		default:
			return false
		}
	}
	return begun
}
