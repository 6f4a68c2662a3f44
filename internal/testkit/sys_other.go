//go:build !unix

package testkit

import (
	"errors"
	"syscall"
)

// Without process groups and stop signals there is nothing to start servers with: this file only lets the package
// compile. The servers are not to be had on such systems either, so their tests skip before they get here.

const (
	sigKill = syscall.SIGKILL
	sigTerm = syscall.SIGTERM
	sigStop = syscall.Signal(-1)
	sigCont = syscall.Signal(-2)
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func childAttributes(string) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }
