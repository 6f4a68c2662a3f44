//go:build unix && !linux

package testkit

import "syscall"

// ownGroup puts a child into its own process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// childAttributes: only Linux has a death signal; elsewhere the reaper kills what is left.
func childAttributes(root string) *syscall.SysProcAttr {
	a := ownGroup()
	a.Chroot = root
	return a
}

// allStopped cannot see threads here: it knows only that the signal was sent.
func allStopped(int) bool { return true }
