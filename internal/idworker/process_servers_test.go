package idworker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// These environment variables tell a child process what to do.
const (
	childRedis  = "IDWORKER_CHILD_REDIS"
	childPrefix = "IDWORKER_CHILD_PREFIX"
	childFile   = "IDWORKER_CHILD_FILE"
)

const (
	burstGoroutines = 32
	burstIDs        = 9_600
)

// child returns the main function of a child process.
func child(run func(client redis.Scripter, prefix string) error) func() int {
	return func() int {
		client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis)})
		defer client.Close()
		if err := run(client, os.Getenv(childPrefix)); err != nil {
			fmt.Println("failed:", err)
			return 1
		}
		return 0
	}
}

// oneMachineConfig has a single machine id for all processes.
func oneMachineConfig(prefix string) Config {
	return Config{KeyPrefix: prefix, Machines: 1, FirstMachine: 7, LastMachine: 7, TTL: time.Second}
}

// burst mints burstIDs ids as fast as possible, in many goroutines.
func burst(ctx context.Context, client redis.Scripter, cfg Config) ([]int64, error) {
	s, err := NewSonyflake(ctx, client, cfg)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	ids := make([][]int64, burstGoroutines)
	errs := make([]error, burstGoroutines)
	for g := range burstGoroutines {
		wg.Go(func() {
			for range burstIDs / burstGoroutines {
				id, err := s.NextID(ctx)
				if err != nil {
					errs[g] = err
					return
				}
				ids[g] = append(ids[g], id)
			}
		})
	}
	wg.Wait()
	return slices.Concat(ids...), errors.Join(errors.Join(errs...), s.Close(ctx))
}

func burstToFile(client redis.Scripter, prefix string) error {
	ids, err := burst(context.Background(), client, Config{KeyPrefix: prefix})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&text, id)
	}
	return os.WriteFile(os.Getenv(childFile), []byte(text.String()), 0o600)
}

// steady mints an id every 5 ms, for ever. It prints each id, or a refusal.
func steady(client redis.Scripter, prefix string) error {
	ctx := context.Background()
	s, err := NewSonyflake(ctx, client, oneMachineConfig(prefix))
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		switch id, err := s.NextID(ctx); {
		case err == nil:
			fmt.Println("id", id)
		case errors.Is(err, ErrNoLease):
			fmt.Println("refused", n)
		default:
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func startChild(t *testing.T, name, addr, prefix, file string) *testkit.Process {
	t.Helper()
	return testkit.StartChild(t, name, childRedis+"="+addr, childPrefix+"="+prefix, childFile+"="+file)
}

func TestProcessesOnOneHost(t *testing.T) {
	server, prefix, dir := testkit.Redis(t), testkit.KeyPrefix(t), t.TempDir()
	const processes = 4
	files := make([]string, processes)
	children := make([]*testkit.Process, processes)
	for i := range processes {
		files[i] = filepath.Join(dir, strconv.Itoa(i))
		children[i] = startChild(t, "burst", server.Addr(), prefix, files[i])
	}
	seen := unique{}
	for i, p := range children {
		if err := p.Wait(); err != nil {
			t.Fatalf("process %d: %v\n%s", i, err, p.Output())
		}
		seen.add(t, fmt.Sprintf("process %d", i), readIDs(t, files[i])...)
	}
	if len(seen) != processes*burstIDs {
		t.Errorf("%d ids; want %d", len(seen), processes*burstIDs)
	}
}

func readIDs(t *testing.T, path string) (ids []int64) {
	t.Helper()
	f, err := os.Open(path)
	fail.NowIf(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		fail.NowIf(t, err)
		ids = append(ids, id)
	}
	return ids
}

// printedIDs returns the ids that a child in the mode steady has printed.
func printedIDs(t *testing.T, p *testkit.Process) (ids []int64) {
	t.Helper()
	text := p.Output()
	text = text[:strings.LastIndexByte(text, '\n')+1] // the last line may be incomplete
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "id "); ok {
			id, err := strconv.ParseInt(n, 10, 64)
			fail.NowIf(t, err)
			ids = append(ids, id)
		}
	}
	return ids
}

// A process is paused for longer than its lease, and another one leases its machine id.
// After it resumes it mints nothing until it has leased the machine id again.
func TestPausedProcess(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	p := startChild(t, "steady", server.Addr(), prefix, "")
	p.WaitLine(t, `^id \d+$`)
	p.Pause()

	s, err := NewSonyflake(t.Context(), server.Client(t), oneMachineConfig(prefix)) // waits for the lease to expire
	fail.NowIf(t, err)
	defer s.Close(context.Background())
	first, err := s.NextID(t.Context())
	fail.NowIf(t, err)
	seen := unique{}
	seen.add(t, "the second holder", first)

	p.Resume()
	p.WaitLine(t, `^refused \d+$`)
	for _, id := range printedIDs(t, p) {
		if id >= first {
			t.Errorf("the paused process minted %d after the next holder's %d", id, first)
		}
		seen.add(t, "the paused process", id)
	}
	for range 1000 {
		id, err := s.NextID(t.Context())
		fail.NowIf(t, err)
		seen.add(t, "the second holder", id)
	}

	before := len(printedIDs(t, p))
	fail.NowIf(t, s.Close(t.Context()))
	testkit.Until(t, "the resumed process mints again", func() bool { return len(printedIDs(t, p)) > before })
	p.Kill()
	for _, id := range printedIDs(t, p)[before:] {
		seen.add(t, "the paused process, with its second lease", id)
	}
}
