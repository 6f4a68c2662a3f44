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
	"seckill/internal/testkit"
)

// DeclaresKeys checks that the scripts of a mechanism name in KEYS whatever they
// touch, and that the keys of one call have one hash tag: both are what a Redis
// Cluster relies on, and only the second is what it checks. use does with the locker
// whatever it can do; nil does the usual. It runs on a server of its own, whose
// MONITOR tells the commands of a script from those of a client.
func DeclaresKeys(t *testing.T, open Open, use func(ctx context.Context, l lock.Locker)) {
	t.Helper()
	if use == nil {
		use = usual
	}
	lines, asker := overhear(t, func(server *testkit.RedisServer) {
		locker, err := open(server.Client(t), testkit.KeyPrefix(t))
		closeLater(t, "a mechanism", locker, err)
		use(t.Context(), locker)
	})
	wrong, calls := undeclared(t.Context(), asker, lines)
	for _, w := range wrong {
		t.Error(w)
	}
	if calls == 0 {
		t.Error("no script was called")
	}
	t.Logf("%d calls of scripts looked at", calls)
}

// overhear returns what MONITOR told while talk talked to a server of its own, and
// a client of that server.
func overhear(t *testing.T, talk func(server *testkit.RedisServer)) (lines []string, asker *redis.Client) {
	t.Helper()
	server := testkit.NewRedis(t)
	monitor := watch(t, server.Addr())
	talk(server)
	asker = server.Client(t)
	const end = "all is said"
	if err := asker.Echo(t.Context(), end).Err(); err != nil {
		t.Fatal(err)
	}
	for monitor.Scan() && !strings.Contains(monitor.Text(), end) {
		lines = append(lines, monitor.Text())
	}
	if err := monitor.Err(); err != nil {
		t.Fatalf("reading from MONITOR: %v", err)
	}
	return lines, asker
}

// watch reads what MONITOR tells. go-redis would give up after its read timeout.
func watch(t *testing.T, addr string) *bufio.Scanner {
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
	lines.Buffer(nil, 1<<20) // a script that is loaded is one line
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR answered %q, %v", lines.Text(), lines.Err())
	}
	return lines
}

// usual goes through a lock's life. What a mechanism does not have, it refuses.
func usual(ctx context.Context, l lock.Locker) {
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
		next := lock.Async(ctx, l, "seat", lock.Options{TTL: time.Second, Wait: 2 * time.Second})
		_ = held.Extend(ctx, 20*time.Second)
		if i, ok := l.(lock.Inspector); ok {
			_, _ = i.Inspect(ctx, "seat")
		}
		_ = held.Release(ctx)
		if got := <-next; got.Err == nil {
			if b, ok := l.(lock.Breaker); ok {
				_, _ = b.ForceRelease(ctx, "seat")
			}
			_ = got.Lease.Release(ctx)
		}
	}
}

// undeclared reads MONITOR's lines: a call of a script is followed by the commands
// that the script made, which come from "lua". It returns what is wrong, and how
// many calls there were.
func undeclared(ctx context.Context, asker *redis.Client, lines []string) (wrong []string, calls int) {
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
		keys, err := asker.Do(ctx, append([]any{"COMMAND", "GETKEYS"}, anys(words)...)...).StringSlice()
		if err != nil {
			continue // TIME, PUBLISH: no keys
		}
		for _, key := range keys {
			if !slices.Contains(declared, key) {
				wrong = append(wrong, fmt.Sprintf("a script does %s with %q, which is not among its KEYS %q", name, key, declared))
			}
		}
	}
	return wrong, calls
}

// keysOf are KEYS of EVAL script numkeys key...
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

// parseMonitor reads: 1700000000.123456 [0 lua] "GET" "key".
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
