package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of this run alone. It writes nothing to disk.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
	done chan struct{} // closed when the process has ended
	said bytes.Buffer  // complete once done is closed
}

// startServer starts it on a free port of 127.0.0.1 and waits until it answers.
func startServer(ctx context.Context) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: install it (apt-get install redis-server, brew install redis), or name one with -redis", err)
	}
	const tries = 3 // another process may take the port first
	for try := 1; ; try++ {
		s, err := startAt(ctx, path)
		if err == nil || ctx.Err() != nil || try == tries {
			return s, err
		}
	}
}

func startAt(ctx context.Context, path string) (*server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "seckill-locks-")
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, done: make(chan struct{})}
	// Not bound to ctx: the clients close before their server does.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "no")
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	// A group of its own: Ctrl-C in a terminal goes to this program alone.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = s.cmd.Wait() // how it ended matters only while it starts, and there its output says more
		close(s.done)
	}()
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// ready checks the process id of the server: an answer alone could come from another server that took the port.
func (s *server) ready(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer client.Close()
	deadline := time.After(20 * time.Second)
	for {
		if pid := client.InfoMap(ctx, "server").Item("Server", "process_id"); pid == strconv.Itoa(s.cmd.Process.Pid) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return fmt.Errorf("redis-server ended: %s", &s.said)
		case <-deadline:
			return errors.New("redis-server does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its folder.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
	}
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
