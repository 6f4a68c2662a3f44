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
// it can connect to itself. It holds for every port of a server: the bus of a cluster's node lies well above its port.
const (
	firstPort = 15000
	lastPort  = 31999
)

// freePort returns a port of 127.0.0.1 that nobody listens on, and neither on those that lie the given distances above it;
// all of them are within the range. Somebody may take one before the server does: see [withFreePort].
func freePort(above ...int) (int, error) {
	last := lastPort
	for _, distance := range above {
		last = min(last, lastPort-distance)
	}
	var err error
	for range 100 {
		port := firstPort + rand.IntN(last-firstPort+1)
		if err = free(port, above...); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: 100 tries failed: %w", err)
}

// free is nil when nobody listens on the port, and neither on those that lie the given distances above it.
func free(port int, above ...int) error {
	for _, distance := range append([]int{0}, above...) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+distance))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// portTries is how many ports a server is started on before it is given up.
const portTries = 5

// withFreePort calls start with a free port, and again with another one when somebody else has taken it meanwhile. A start
// that fails for any other reason is not repeated. above says at which distances from its port the server listens too.
func withFreePort(start func(port int) error, above ...int) error {
	for try := 1; ; try++ {
		port, err := freePort(above...)
		if err != nil {
			return err
		}
		err = start(port)
		if err == nil || try == portTries || !taken(err, port, above...) {
			return err
		}
	}
}

// taken says whether a start failed because the server could not bind. Not every server says why it ends (ZooKeeper
// without a logger is silent), so the ports are asked too.
func taken(err error, port int, above ...int) bool {
	if errors.Is(err, errEnded) {
		err = errors.Join(err, free(port, above...))
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// listening says whether somebody listens. It is asked before a driver is, which would spend its own retries.
func listening(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
