package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Main runs the tests of a package (m is the *[testing.M]), stops the shared servers, and fails if a goroutine has
// leaked. In a process of [StartChild] it runs one of the children instead. It does not return.
func Main(m interface{ Run() int }, children ...Children) {
	MainIfReaper()
	for _, c := range children {
		c.run()
	}
	redis.SetLogger(discardLogger{})
	_ = mysql.SetLogger(discardLogger{}) // it only fails without a logger
	code := m.Run()

	if err := Close(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		code = max(code, 1)
	}
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if err := leakedGoroutines(shutdownTimeout); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: goroutines are left after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// abandonedByProxy ignores goroutines that toxiproxy leaks, about once in some hundred runs, when a proxy is closed or
// its toxics change while data passes through it: they wait to send to a receiver that has gone.
func abandonedByProxy() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/stream.(*ChanWriter).Write"),
	}
}

// shutdownTimeout is how long goroutines get to end by themselves. After Close, a go-redis pool whose dials have failed
// continues in the background until it has slept for a second, or until a dial of up to 5 s has ended.
const shutdownTimeout = 7 * time.Second

// leakedGoroutines returns an error that shows the goroutines that do not end in time.
func leakedGoroutines(within time.Duration) (err error) {
	for limit := time.Now().Add(within); ; {
		if err = goleak.Find(abandonedByProxy()...); err == nil || time.Now().After(limit) {
			return err
		}
	}
}

// discardLogger drops the log lines of the drivers about servers that tests have killed.
type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}
func (discardLogger) Print(...any)                           {}

// Close stops the shared servers, and then the reaper, which kills and removes what is left. In a test binary, [Main]
// calls it. An experiment calls it after its own cleanup, when it starts nothing more. A second call does nothing.
func Close() error { return binary.close() }

// Folder returns a new temporary folder and the function that removes it. If the program dies before that, the reaper
// removes it.
func Folder() (path string, remove func() error, err error) { return binary.folder("") }

// KeyPrefix returns a unique prefix for keys on a shared server, such as "t-TestRelease-7:".
func KeyPrefix(t TB) string {
	return fmt.Sprintf("t-%s-%d:", strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()), binary.next())
}

// binary holds the state of the program as a whole, usually a test binary. It is a package variable because [testing.M]
// cannot pass values from TestMain to a test.
var binary testBinary

type testBinary struct {
	redis     shared[*redisProcess]
	mariadb   shared[*sqlProcess]
	mysql     shared[*sqlProcess]
	zookeeper shared[*zooKeeperProcess]
	programs  programs

	mu      sync.Mutex
	reaper  *reaper
	counter atomic.Int64
}

// next returns a number that is unique in this binary.
func (b *testBinary) next() int64 { return b.counter.Add(1) }

// folder returns a new temporary folder under parent ("" means the system's), which the reaper knows of, and the
// function that removes it.
func (b *testBinary) folder(parent string) (path string, remove func() error, err error) {
	if allowed() != nil { // in go test there is no reaper, and nobody kills this process on purpose
		path, err := os.MkdirTemp(parent, "seckill-test-")
		return path, func() error { return os.RemoveAll(path) }, err
	}
	j, err := b.startedReaper()
	if err != nil {
		return "", nil, err
	}
	// The reaper knows the name before the folder exists: a process that is killed in between leaves nothing behind.
	path = filepath.Join(cmp.Or(parent, os.TempDir()), "seckill-test-"+strconv.FormatUint(rand.Uint64(), 36))
	if err := j.addFolder(path); err != nil {
		return "", nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", nil, errors.Join(err, j.dropFolder(path))
	}
	return path, func() error { return errors.Join(os.RemoveAll(path), j.dropFolder(path)) }, nil
}

// startedReaper returns the reaper, and starts it on first use.
func (b *testBinary) startedReaper() (*reaper, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaper == nil {
		j, err := startReaper()
		if err != nil {
			return nil, fmt.Errorf("start the reaper: %w", err)
		}
		b.reaper = j
	}
	return b.reaper, nil
}

func (b *testBinary) close() error {
	err := errors.Join(b.redis.close(), b.mariadb.close(), b.mysql.close(), b.zookeeper.close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaper != nil {
		err = errors.Join(err, b.reaper.close())
		b.reaper = nil
	}
	return err
}

// shared is a server that is started once, by the first caller, and closed once. A failed start is remembered, so that
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
