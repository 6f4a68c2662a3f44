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
)

// When these environment variables are set, the test binary runs as a child process that
// mints ids.
const (
	childMode   = "IDWORKER_CHILD" // burst or steady
	childRedis  = "IDWORKER_CHILD_REDIS"
	childPrefix = "IDWORKER_CHILD_PREFIX"
	childFile   = "IDWORKER_CHILD_FILE"
)

const (
	burstGoroutines = 32
	burstIDs        = 20_000
)

// oneMachineConfig has a single machine id for all processes.
func oneMachineConfig(prefix string) Config {
	return Config{KeyPrefix: prefix, Machines: 1, FirstMachine: 7, LastMachine: 7, TTL: time.Second}
}

// child is the main function of a child process.
func child(mode string) int {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis)})
	defer client.Close()
	var err error
	switch prefix := os.Getenv(childPrefix); mode {
	case "burst":
		err = burstToFile(client, Config{KeyPrefix: prefix}, os.Getenv(childFile))
	case "steady":
		err = steady(client, oneMachineConfig(prefix))
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
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

func burstToFile(client redis.Scripter, cfg Config, path string) error {
	ids, err := burst(context.Background(), client, cfg)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&text, id)
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// steady mints an id every 5 ms, for ever. It prints each id, or a refusal.
func steady(client redis.Scripter, cfg Config) error {
	ctx := context.Background()
	s, err := NewSonyflake(ctx, client, cfg)
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

func startChild(t *testing.T, mode, addr, prefix, file string) *testkit.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Start(t, testkit.Command{Path: self, Env: []string{
		childMode + "=" + mode, childRedis + "=" + addr, childPrefix + "=" + prefix, childFile + "=" + file,
	}})
}

// unique collects ids and fails the test on a duplicate.
type unique map[int64]string

func (u unique) add(t *testing.T, who string, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if id <= 0 {
			t.Fatalf("%s minted %d", who, id)
		}
		if other, ok := u[id]; ok {
			t.Fatalf("%d was minted by %s and by %s", id, other, who)
		}
		u[id] = who
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Fatal(err)
			}
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
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	first, err := s.NextID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		seen.add(t, "the second holder", id)
	}

	before := len(printedIDs(t, p))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the resumed process mints again", func() bool { return len(printedIDs(t, p)) > before })
	p.Kill()
	for _, id := range printedIDs(t, p)[before:] {
		seen.add(t, "the paused process, with its second lease", id)
	}
}

// The machine id of a killed process is unavailable until its lease has expired.
func TestKilledProcess(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	cfg := oneMachineConfig(prefix)
	p := startChild(t, "steady", server.Addr(), prefix, "")
	p.WaitLine(t, `^id \d+$`)
	p.Kill()

	client := server.Client(t)
	began := time.Now() // before Redis reads the TTL: its answer may be late
	ttl := client.PTTL(t.Context(), prefix+"idworker:{sonyflake}:lease:7").Val()
	s, err := NewSonyflake(t.Context(), client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if waited := time.Since(began); waited < ttl-2*time.Millisecond {
		t.Errorf("leased after %v; the lease of the killed process had %v left", waited, ttl)
	}
	seen := unique{}
	seen.add(t, "the killed process", printedIDs(t, p)...)
	for range 1000 {
		id, err := s.NextID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen.add(t, "the next holder", id)
	}
}
