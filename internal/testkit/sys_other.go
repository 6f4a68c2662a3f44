//go:build !unix

package testkit

import (
	"errors"
	"os"
	"syscall"
)

// Without process groups and stop signals no servers can be started. This file only lets the package compile. The
// servers are not available on such systems either, so their tests skip before.

const (
	sigKill = syscall.SIGKILL
	sigTerm = syscall.SIGTERM
	sigStop = syscall.Signal(-1)
	sigCont = syscall.Signal(-2)
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func childAttributes(string) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }

const nobody = 0

func asNobody(*syscall.SysProcAttr) {}

func allStopped(int) bool { return true }

// NotifyResumed returns a channel that is never sent to.
func NotifyResumed() <-chan os.Signal { return nil }
