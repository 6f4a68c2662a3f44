package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports are chosen below the range from which the kernel chooses ports for outgoing connections (32768 and up on Linux,
// 49152 elsewhere). So no client gets the port of a server that is down for a moment, and no client that redials it
// connects to itself. This holds for every port of a server: the bus of a cluster node is far above its client port.
const (
	firstPort = 15000
	lastPort  = 31999
)

// freePort returns a port of 127.0.0.1 on which nobody listens, nor on the ports at the given distances above it; all
// of them are within the range. Another process may take one before the server does: see [withFreePort].
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

// FreeAddr returns an address of 127.0.0.1 on which nobody listens. No client gets its port for an outgoing connection,
// so it stays free unless another server of these tests takes it.
func FreeAddr(t TB) string {
	t.Helper()
	check(t, allowed())
	port, err := freePort()
	check(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// free returns nil if nobody listens on the port, nor on those at the given distances above it.
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

// portTries is the number of ports to try before a start fails.
const portTries = 5

// withFreePort calls start with a free port, and again with another one if the port was taken in the meantime. A start
// that fails for any other reason is not repeated. above are the distances from its port at which the server listens,
// too.
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

// taken reports whether a start failed because the server could not bind. Not every server says why it ended (ZooKeeper
// without a logger is silent), so the ports are checked, too.
func taken(err error, port int, above ...int) bool {
	if errors.Is(err, errEnded) {
		err = errors.Join(err, free(port, above...))
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// listening returns nil if somebody listens at addr. It comes before a driver, which would retry.
func listening(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
