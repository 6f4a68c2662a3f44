package testkit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seckill/internal/testkit/fail"
)

// occupy listens on a port until the end of the test, and never answers.
func occupy(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	fail.NowIf(t, err)
	t.Cleanup(func() { l.Close() })
}

// For every kind of server, the port is taken between its choice and the start.
func TestServerWithATakenPortGetsAnother(t *testing.T) {
	for _, tc := range []struct {
		name  string
		taken int // distance above the port
		start func(t *testing.T, withPort portFunc) (*Process, error)
	}{
		{"redis", 0, startRedisOn(redisOptions{})},
		{"sentinel", 0, startRedisOn(redisOptions{sentinel: true})},
		{"cluster node", 0, startRedisOn(redisOptions{extra: []string{"--cluster-enabled", "yes"}})},
		{"cluster node's bus", clusterBus, startRedisOn(redisOptions{extra: []string{"--cluster-enabled", "yes"}})},
		{"mariadb", 0, startSQLOn(mariaDB{})},
		{"mysql", 0, startSQLOn(mySQL{})},
		{"zookeeper", 0, startZooKeeperOn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ports []int
			process, err := tc.start(t, func(start func(port int) error, above ...int) error {
				return withFreePort(func(port int) error {
					if ports = append(ports, port); len(ports) == 1 {
						occupy(t, port+tc.taken)
					}
					return start(port)
				}, above...)
			})
			fail.NowIf(t, err)
			defer process.Kill()
			if len(ports) != 2 || ports[0] == ports[1] {
				t.Errorf("started on %d, want the taken port and one other", ports)
			}
		})
	}
}

// portFunc is the type of withFreePort.
type portFunc = func(start func(port int) error, above ...int) error

func startRedisOn(options redisOptions) func(*testing.T, portFunc) (*Process, error) {
	return func(t *testing.T, withPort portFunc) (*Process, error) {
		path, err := lookUp("redis-server", redisHow)
		check(t, err)
		s := &redisProcess{path: path, dir: t.TempDir(), options: options}
		err = withPort(func(port int) error { s.port = port; return s.restart() }, options.above()...)
		return s.Process, err
	}
}

func startSQLOn(engine sqlEngine) func(*testing.T, portFunc) (*Process, error) {
	return func(t *testing.T, withPort portFunc) (*Process, error) {
		program, err := engine.locate()
		check(t, err)
		dir, remove, err := binary.folder(program.temp())
		check(t, err)
		t.Cleanup(func() { check(t, remove()) })
		s := &sqlProcess{engine: engine, program: program, dir: dir}
		check(t, engine.initialize(program, s.data()))
		err = withPort(func(port int) error { s.port = port; return s.restart() })
		return s.Process, err
	}
}

func startZooKeeperOn(t *testing.T, withPort portFunc) (*Process, error) {
	java, classPath, err := locateZooKeeper()
	check(t, err)
	s := &zooKeeperProcess{java: java, classPath: classPath, dir: t.TempDir()}
	err = withPort(func(port int) error { s.port = port; return s.restart() })
	return s.Process, err
}

// A start is tried again where the port is taken, so many times, and not for another reason.
func TestStartThatFails(t *testing.T) {
	try := func(options redisOptions, before func(port int)) (tries int, err error) {
		_, err = startRedisOn(options)(t, func(start func(port int) error, _ ...int) error {
			return withFreePort(func(port int) error {
				tries++
				before(port)
				return start(port)
			})
		})
		return tries, err
	}
	tries, err := try(redisOptions{}, func(port int) { occupy(t, port) })
	if tries != portTries || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%d tries, then %v; want %d and that the address is in use", tries, err, portTries)
	}
	tries, err = try(redisOptions{extra: []string{"--no-such-flag", "1"}}, func(int) {})
	if tries != 1 || !errors.Is(err, errEnded) || errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("%d tries, then %v; want one, and what the server printed", tries, err)
	}
}

func TestFreePortsAreBelowThoseOfClients(t *testing.T) {
	for range 1000 {
		port, err := freePort(clusterBus)
		fail.NowIf(t, err)
		if port < firstPort || port+clusterBus > lastPort {
			t.Fatalf("port %d with %d, want both within %d to %d", port, port+clusterBus, firstPort, lastPort)
		}
	}
}

func TestFreeChecksEveryPort(t *testing.T) {
	port, err := freePort(1)
	fail.NowIf(t, err)
	if err := free(port, 1); err != nil {
		t.Errorf("ports %d and %d: %v, want them free", port, port+1, err)
	}
	occupy(t, port+1)
	fail.Unless(t, free(port, 1), syscall.EADDRINUSE, "with port %d taken", port+1)
}

// A server that is being set up does not delete the temporary files of another one.
func TestSetupKeepsTheFilesOfOtherServers(t *testing.T) {
	shared := t.TempDir()
	t.Setenv("TMPDIR", shared)
	other := filepath.Join(shared, "#sql-temptable-1-1-1.MAD")
	fail.NowIf(t, os.WriteFile(other, nil, 0o600))
	NewMariaDB(t)
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the other server's file: %v", err)
	}
}
