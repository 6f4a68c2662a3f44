package testkit

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/goleak"
)

// Main runs the tests of a package (m is the *[testing.M]), stops the shared servers, and fails if a goroutine is left
// over. It does not return.
func Main(m interface{ Run() int }) {
	code := m.Run()

	if err := Close(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		code = max(code, 1)
	}
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: goroutines are left after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Close stops the shared servers, and then the janitor, who kills and removes what is still there. A test binary has [Main]
// call it; an experiment calls it when those who started something of their own have cleaned up, and nobody starts
// anything more. A second call finds nothing to do.
func Close() error { return binary.close() }

// Folder returns a new temporary folder and the function that removes it. If the program dies before, the janitor does.
func Folder() (path string, remove func() error, err error) { return binary.folder("") }

// KeyPrefix returns a prefix for keys on a shared server, such as "t-TestRelease-7:", that no other test uses.
func KeyPrefix(t TB) string {
	return fmt.Sprintf("t-%s-%d:", strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()), binary.next())
}

// binary holds what belongs to the program as a whole, most often a test binary. It is a package variable because
// [testing.M] offers no place to hand anything from TestMain to a test.
var binary testBinary

type testBinary struct {
	redis     shared[*redisProcess]
	mariadb   shared[*sqlProcess]
	mysql     shared[*sqlProcess]
	zookeeper shared[*zooKeeperProcess]

	mu      sync.Mutex
	janitor *janitor
	counter atomic.Int64
}

// next returns a number that is unique in this binary.
func (b *testBinary) next() int64 { return b.counter.Add(1) }

// folder returns a new temporary folder under parent ("" is the system's) that the janitor knows about, and the function
// that removes it.
func (b *testBinary) folder(parent string) (path string, remove func() error, err error) {
	j, err := b.watch()
	if err != nil {
		return "", nil, err
	}
	path, err = os.MkdirTemp(parent, "seckill-test-")
	if err != nil {
		return "", nil, err
	}
	if err := j.addFolder(path); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, func() error { return errors.Join(os.RemoveAll(path), j.dropFolder(path)) }, nil
}

// watch returns the janitor, started on first use.
func (b *testBinary) watch() (*janitor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.janitor == nil {
		j, err := startJanitor()
		if err != nil {
			return nil, fmt.Errorf("start the janitor: %w", err)
		}
		b.janitor = j
	}
	return b.janitor, nil
}

func (b *testBinary) close() error {
	err := errors.Join(b.redis.close(), b.mariadb.close(), b.mysql.close(), b.zookeeper.close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.janitor != nil {
		err = errors.Join(err, b.janitor.close())
		b.janitor = nil
	}
	return err
}

// shared is a server that is started once, by whoever asks first, and closed once. A failed start is remembered, so that
// a hundred tests do not wait for it a hundred times.
type shared[S interface{ close() error }] struct {
	mu      sync.Mutex
	started bool
	server  S
	err     error
}

func (s *shared[S]) get(start func() (S, error)) (S, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.server, s.err = start()
		s.started = true
	}
	return s.server, s.err
}

func (s *shared[S]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	s.started = false
	return s.server.close()
}
