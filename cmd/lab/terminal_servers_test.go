//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// seat is a person at a terminal, in front of lab.
type seat struct {
	t        *testing.T
	keyboard *os.File // the terminal's other side
	cmd      *exec.Cmd
	stdout   bytes.Buffer // if it is not the terminal

	mu     sync.Mutex
	screen strings.Builder
}

// sit starts lab at a terminal of its own. With split, only standard input and error are the terminal.
func (b program) sit(split bool, env []string, args ...string) *seat {
	b.t.Helper()
	keyboard, terminal := openTerminal(b.t)
	s := &seat{t: b.t, keyboard: keyboard}
	c := b.command(env, args...)
	s.cmd = exec.CommandContext(b.t.Context(), c.Path, c.Args...)
	s.cmd.Env = append(os.Environ(), c.Env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	if split {
		s.cmd.Stdout = &s.stdout
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	fail.NowIf(b.t, s.cmd.Start())
	fail.If(b.t, terminal.Close())
	var reading sync.WaitGroup
	reading.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keyboard.Read(buffer)
			s.mu.Lock()
			s.screen.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return // EIO: nobody has the terminal open any more
			}
		}
	})
	b.t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		fail.If(b.t, keyboard.Close())
		reading.Wait()
	})
	return s
}

// openTerminal opens a pseudo-terminal of 80 columns.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	fail.NowIf(t, err)
	control := func(request uintptr, value unsafe.Pointer) {
		raw, err := keyboard.SyscallConn()
		fail.NowIf(t, err)
		var failed syscall.Errno
		if err := raw.Control(func(fd uintptr) {
			_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value))
		}); err != nil || failed != 0 {
			t.Fatal(err, failed)
		}
	}
	var locked, number int32
	size := [4]uint16{40, 80}
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	fail.NowIf(t, err)
	return keyboard, terminal
}

// sees waits until a text is on the screen n times, and returns the screen.
func (s *seat) sees(text string, n int) string {
	s.t.Helper()
	var screen string
	testkit.Until(s.t, fmt.Sprintf("%q %d times on the screen", text, n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		screen = strings.ReplaceAll(s.screen.String(), "\r\n", "\n")
		return strings.Count(screen, text) >= n
	})
	return screen
}

func (s *seat) types(text string) {
	s.t.Helper()
	fail.NowIf(s.t, fail.Of(s.keyboard.WriteString(text)))
}

// leaves waits for the end of lab, and returns its exit code.
func (s *seat) leaves() int {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			s.t.Fatal(err)
		}
	}
	return s.cmd.ProcessState.ExitCode()
}

const prompt = "holds, breaks, or breaks:KIND? "

// Each question comes before its run, and does not give the outcome away. What is no prediction is asked for again.
func TestQuizAtATerminal(t *testing.T) {
	t.Parallel()
	b := newProgram(t)
	s := b.sit(false, withoutServers(t), "run", "--quiz", "no-lock", "conditional-stock-no-lock")
	before := s.sees(prompt, 1)
	fail.Without(t, before, "than there is?", "It breaks if one of these is seen:", "oversold")
	for _, e := range everyExperiment(t)[:1] {
		if strings.Contains(before, e.Title) || strings.Contains(before, e.Hypothesis) || strings.Contains(before, "as expected") {
			t.Errorf("before the run it gives the outcome away:\n%s", before)
		}
	}
	s.types("perhaps\n")
	s.sees("no prediction", 1)
	s.sees(prompt, 2)
	s.types("breaks: oversold\n")
	s.sees(`You predicted “breaks: oversold”. Right: it breaks`, 1)
	s.sees(prompt, 3)
	s.types("breaks\n")
	s.sees(`You predicted “breaks”. Wrong: it holds.`, 1)
	after := s.sees("Your predictions: 1 of 2 right", 1)
	if !strings.Contains(after, "\n  anomalies: ") {
		t.Errorf("the table is wider than the terminal:\n%s", after)
	}
	fits(t, after)
	if code := s.leaves(); code != exitOK {
		t.Errorf("exit code %d: a wrong prediction is no failure", code)
	}
	b.nothingLeft()
}

// fits fails the test if a line is wider than the terminal. A line that was overwritten does not count.
func fits(t *testing.T, screen string) {
	t.Helper()
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*[a-zA-Z]")
	for line := range strings.Lines(screen) {
		line = strings.TrimSuffix(line[strings.LastIndex(line, "\r")+1:], "\n")
		if n := utf8.RuneCountInString(escapes.ReplaceAllString(line, "")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Ctrl-C and Ctrl-D at the question end lab, and nothing is left.
func TestQuizIsLeft(t *testing.T) {
	b := newProgram(t)
	for name, key := range map[string]string{"Ctrl-C": "\x03", "Ctrl-D": "\x04"} {
		t.Run(name, func(t *testing.T) {
			s := b.sit(true, nil, "run", "--quiz", "--json", "no-lock", "paused-holder")
			s.sees(prompt, 1)
			s.types(key)
			fail.Unequal(t, s.leaves(), exitFailed, "exit code")
			s.sees("stopped after 0 of 2 experiments", 1)
			if s.stdout.Len() > 0 {
				t.Errorf("standard output has %q", s.stdout.String())
			}
			b.nothingLeft()
		})
	}
}
