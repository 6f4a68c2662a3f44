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

// The test binary runs itself as a process of its own when these are set.
const (
	childMode   = "IDWORKER_CHILD" // flood or trickle
	childRedis  = "IDWORKER_CHILD_REDIS"
	childPrefix = "IDWORKER_CHILD_PREFIX"
	childFile   = "IDWORKER_CHILD_FILE"
)

const (
	floodGoroutines = 32
	floodIDs        = 20_000
)

// trickleConfig has one machine id only, for all processes.
func trickleConfig(prefix string) Config {
	return Config{KeyPrefix: prefix, Machines: 1, FirstMachine: 7, LastMachine: 7, TTL: time.Second}
}

// child is what a child process does.
func child(mode string) int {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis)})
	defer client.Close()
	var err error
	switch prefix := os.Getenv(childPrefix); mode {
	case "flood":
		err = floodFile(client, Config{KeyPrefix: prefix}, os.Getenv(childFile))
	case "trickle":
		err = trickle(client, trickleConfig(prefix))
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// flood mints floodIDs ids in many goroutines.
func flood(ctx context.Context, client redis.Scripter, cfg Config) ([]int64, error) {
	s, err := NewSonyflake(ctx, client, cfg)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	ids := make([][]int64, floodGoroutines)
	errs := make([]error, floodGoroutines)
	for g := range floodGoroutines {
		wg.Go(func() {
			for range floodIDs / floodGoroutines {
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

func floodFile(client redis.Scripter, cfg Config, path string) error {
	ids, err := flood(context.Background(), client, cfg)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&text, id)
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// trickle mints an id every few milliseconds for ever and prints it, or that
// there was none.
func trickle(client redis.Scripter, cfg Config) error {
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

// unique collects ids and fails on a second one.
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
		children[i] = startChild(t, "flood", server.Addr(), prefix, files[i])
	}
	seen := unique{}
	for i, p := range children {
		if err := p.Wait(); err != nil {
			t.Fatalf("process %d: %v\n%s", i, err, p.Output())
		}
		seen.add(t, fmt.Sprintf("process %d", i), readIDs(t, files[i])...)
	}
	if len(seen) != processes*floodIDs {
		t.Errorf("%d ids; want %d", len(seen), processes*floodIDs)
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

// printedIDs are the ids that a trickle has printed.
func printedIDs(t *testing.T, p *testkit.Process) (ids []int64) {
	t.Helper()
	text := p.Output()
	text = text[:strings.LastIndexByte(text, '\n')+1] // the last line may be half there
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

// A process is stopped for longer than its lease; another one leases its machine
// id meanwhile. After it wakes it mints nothing with it until it has it again.
func TestStoppedProcess(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	p := startChild(t, "trickle", server.Addr(), prefix, "")
	p.WaitLine(t, `^id \d+$`)
	p.Pause()

	s, err := NewSonyflake(t.Context(), server.Client(t), trickleConfig(prefix)) // waits for the lease to run out
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
			t.Errorf("the stopped process minted %d after the next holder's %d", id, first)
		}
		seen.add(t, "the stopped process", id)
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
	eventually(t, "the woken process mints again", func() bool { return len(printedIDs(t, p)) > before })
	p.Kill()
	for _, id := range printedIDs(t, p)[before:] {
		seen.add(t, "the stopped process, with its second lease", id)
	}
}

// The machine id of a killed process is out of use until its lease has run out.
func TestKilledProcess(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	cfg := trickleConfig(prefix)
	p := startChild(t, "trickle", server.Addr(), prefix, "")
	p.WaitLine(t, `^id \d+$`)
	p.Kill()

	client := server.Client(t)
	ttl := client.PTTL(t.Context(), prefix+"idworker:{sonyflake}:lease:7").Val()
	asked := time.Now()
	s, err := NewSonyflake(t.Context(), client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if waited := time.Since(asked); waited < ttl-2*time.Millisecond {
		t.Errorf("leased after %v; the dead process's lease ran another %v", waited, ttl)
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
