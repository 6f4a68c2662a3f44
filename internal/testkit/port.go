package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports are taken from below the range from which the kernel picks ports for outgoing connections (32768 and up on Linux,
// 49152 elsewhere). So no client can land on the port of a server that is down for a moment, and no client that redials
// it can connect to itself.
const (
	firstPort = 15000
	lastPort  = 31999
)

// freePort returns a port of 127.0.0.1 that nobody listens on. Somebody may take it before the server does: the caller
// starts again with another one.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("find a free port: %w", errors.Join(errors.New("100 tries failed"), last))
}

// withFreePort calls start with a free port, and again with another one when somebody else has taken it: a server that
// cannot bind ends at once.
func withFreePort(start func(port int) error) error {
	const tries = 3
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		err = start(port)
		taken := errors.Is(err, errEnded) || errors.Is(err, syscall.EADDRINUSE)
		if !taken || try == tries {
			return err
		}
	}
}

// listening says whether somebody listens. It is asked before a driver is, which would spend its own retries.
func listening(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
