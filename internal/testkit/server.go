package testkit

import (
	"context"
	"errors"
	"fmt"
)

// server is a server of one test, or one that all tests of this binary share. Its methods fail the test.
type server[P serverProcess] struct {
	t       TB
	process P
	shared  bool
}

// serverProcess is a process of a server, with its port and folder.
type serverProcess interface {
	name() string // of the server, for errors
	addr() string
	restart() error
	running() *Process
}

// Addr returns the server's address, host:port. Restart does not change it.
func (s *server[P]) Addr() string { return s.process.addr() }

// Kill kills the server with SIGKILL and waits for its end.
func (s *server[P]) Kill() { s.own("Kill").Kill() }

// Stop stops the server with SIGTERM, as an operator would, and waits for its end.
func (s *server[P]) Stop() {
	s.t.Helper()
	if err := s.own("Stop").Stop(); err != nil {
		s.t.Fatalf("testkit: stop %s: %v", s.process.name(), err)
	}
}

// Pause pauses the server (SIGSTOP): connections stay open and nothing answers.
func (s *server[P]) Pause() {
	s.t.Helper()
	s.own("Pause").pause(s.t)
}

// Resume continues a paused server.
func (s *server[P]) Resume() { s.own("Resume").Resume() }

// Restart starts the server again on the same port and in the same folder, and waits until it has recovered and
// answers. A running server is killed first.
func (s *server[P]) Restart() {
	s.t.Helper()
	s.own("Restart").Kill()
	if err := s.process.restart(); err != nil {
		s.t.Fatalf("testkit: restart %s: %v", s.process.name(), err)
	}
}

// own fails the test if the server is shared, because other tests use it.
func (s *server[P]) own(method string) *Process {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("testkit: %s of the shared %s would break other tests; use one of the test's own", method, s.process.name())
	}
	return s.process.running()
}

// home is the port and the folder of a server, which it has again after a restart.
type home struct {
	*Process
	port   int
	dir    string
	remove func() error // removes dir
}

// settle starts a server for the first time: in a new folder below a parent, once that is prepared, and on a free port.
// above are the distances from its port at which the server listens, too.
func (h *home) settle(of serverProcess, parent string, prepare func() error, above ...int) (err error) {
	if h.dir, h.remove, err = binary.folder(parent); err != nil {
		return err
	}
	if err = prepare(); err == nil {
		err = withFreePort(func(port int) error {
			h.port = port
			return of.restart()
		}, above...)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", of.name(), err), h.remove())
	}
	return nil
}

// run starts the server's process, and returns when it is ready.
func (h *home) run(c Command, ready func(context.Context) error) (err error) {
	if h.Process, err = start(c); err != nil {
		return err
	}
	if err := h.waitReady(ready); err != nil {
		h.Kill()
		return err
	}
	return nil
}

func (h *home) addr() string { return fmt.Sprintf("127.0.0.1:%d", h.port) }

func (h *home) running() *Process { return h.Process }

func (h *home) close() error {
	h.Kill()
	return h.remove()
}

// closeAtEnd stops a server at the end of the test.
func closeAtEnd(t TB, s interface {
	serverProcess
	close() error
}) {
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("testkit: stop %s: %v", s.name(), err)
		}
	})
}
