package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// DeclaresKeys checks that the scripts of a mechanism declare in KEYS every key that
// they touch, and that the keys of one call have one hash tag. A Redis Cluster relies on
// both and checks only the second. The test has its own server, whose MONITOR distinguishes
// the commands of a script from those of a client.
func (m Mechanism) DeclaresKeys(t *testing.T) {
	t.Helper()
	lines, client := monitored(t, func(server *testkit.RedisServer) {
		locker, err := m.Open([]redis.UniversalClient{server.Client(t)}, Setting{Prefix: testkit.KeyPrefix(t)})
		ordinaryUse(t.Context(), locktest.Opened(t, locker, err))
		if rw, ok := locker.(locktest.ReadWriter); ok {
			ordinaryUse(t.Context(), rw.Reader())
		}
	})
	wrong, calls := undeclared(t.Context(), client, lines)
	for _, w := range wrong {
		t.Error(w)
	}
	if calls == 0 {
		t.Error("no script was called")
	}
	t.Logf("checked %d calls of scripts", calls)
}

// monitored runs use on a new server. It returns the lines that MONITOR printed meanwhile,
// and a client of that server.
func monitored(t *testing.T, use func(server *testkit.RedisServer)) (lines []string, client *redis.Client) {
	t.Helper()
	server := testkit.NewRedis(t)
	monitor := startMonitor(t, server.Addr())
	use(server)
	client = server.Client(t)
	const end = "end of the test"
	if err := client.Echo(t.Context(), end).Err(); err != nil {
		t.Fatal(err)
	}
	for monitor.Scan() && !strings.Contains(monitor.Text(), end) {
		lines = append(lines, monitor.Text())
	}
	if err := monitor.Err(); err != nil {
		t.Fatalf("reading from MONITOR: %v", err)
	}
	return lines, client
}

// startMonitor starts MONITOR and reads its lines. It does not use go-redis, which ends
// with its read timeout.
func startMonitor(t *testing.T, addr string) *bufio.Scanner {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // loading a script is one line
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR answered %q, %v", lines.Text(), lines.Err())
	}
	return lines
}

// ordinaryUse calls what a lock has, from its acquisition to its release. A mechanism refuses what it does not have.
func ordinaryUse(ctx context.Context, l lock.Locker) {
	owner := lock.WithOwner(ctx, "me")
	opts := lock.Options{TTL: 10 * time.Second}
	waits := lock.Options{TTL: 10 * time.Second, Wait: 50 * time.Millisecond}
	for range 2 { // the second time by EVALSHA
		held, err := l.Acquire(owner, "seat", opts)
		if err != nil {
			continue
		}
		if again, err := l.Acquire(owner, "seat", opts); err == nil {
			_ = again.Release(ctx)
		}
		_, _ = l.Acquire(ctx, "seat", waits)
		next := locktest.InBackground(ctx, l, "seat", lock.Options{TTL: time.Second, Wait: 2 * time.Second})
		_ = held.Extend(ctx, 20*time.Second)
		if i, ok := l.(lock.Inspector); ok {
			_, _ = i.Inspect(ctx, "seat")
		}
		_ = held.Release(ctx)
		if got := <-next; got.Err == nil {
			if b, ok := l.(lock.ForceReleaser); ok {
				_, _ = b.ForceRelease(ctx, "seat")
			}
			_ = got.Lease.Release(ctx)
		}
	}
}

// undeclared reads MONITOR's lines: after the call of a script come the commands of that
// script, whose source is "lua". It returns the errors that it finds and the number of
// calls.
func undeclared(ctx context.Context, client *redis.Client, lines []string) (wrong []string, calls int) {
	var declared []string
	for _, line := range lines {
		words, fromScript := parseMonitor(line)
		if len(words) == 0 {
			continue
		}
		name := strings.ToLower(words[0])
		if !fromScript {
			if declared = nil; name == "eval" || name == "evalsha" {
				declared, calls = keysOf(words), calls+1
				if !oneTag(declared) {
					wrong = append(wrong, fmt.Sprintf("the keys of one call do not have one hash tag: %q", declared))
				}
			}
			continue
		}
		keys, err := client.Do(ctx, append([]any{"COMMAND", "GETKEYS"}, anys(words)...)...).StringSlice()
		if err != nil {
			continue // TIME, PUBLISH: no keys
		}
		for _, key := range keys {
			if !slices.Contains(declared, key) {
				wrong = append(wrong, fmt.Sprintf("a script calls %s with %q, which is not among its KEYS %q", name, key, declared))
			}
		}
	}
	return wrong, calls
}

// keysOf returns the keys of EVAL script numkeys key...
func keysOf(words []string) []string {
	n := 0
	if len(words) > 2 {
		n, _ = strconv.Atoi(words[2])
	}
	return words[min(3, len(words)):min(3+n, len(words))]
}

func oneTag(keys []string) bool {
	tags := make(map[string]bool)
	for _, key := range keys {
		_, after, _ := strings.Cut(key, "{")
		tag, _, _ := strings.Cut(after, "}")
		tags[tag] = true
	}
	return len(tags) <= 1 && !tags[""]
}

// parseMonitor reads a line such as 1700000000.123456 [0 lua] "GET" "key".
func parseMonitor(line string) (words []string, fromScript bool) {
	_, rest, ok := strings.Cut(line, "[")
	if !ok {
		return nil, false
	}
	source, rest, _ := strings.Cut(rest, "] ")
	for rest != "" {
		rest = strings.TrimPrefix(strings.TrimSpace(rest), `"`)
		end := 0
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		words = append(words, rest[:min(end, len(rest))])
		rest = rest[min(end+1, len(rest)):]
	}
	return words, strings.HasSuffix(source, " lua")
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}
