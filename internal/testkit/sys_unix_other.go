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
