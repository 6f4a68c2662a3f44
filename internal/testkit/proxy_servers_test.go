package testkit_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// soon is long for an answer over loopback on a busy machine, and short for a test that waits for a missing one.
const soon = 3 * time.Second

// proxied returns a server, a proxy in front of it, and a connected client behind the proxy with short
// timeouts.
func proxied(t *testing.T) (*testkit.RedisServer, *testkit.Proxy, *redis.Client) {
	t.Helper()
	server := testkit.Redis(t)
	proxy := testkit.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: soon, PoolSize: 1})
	t.Cleanup(func() { client.Close() })
	answers(t, client)
	return server, proxy, client
}

func answers(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("no answer through the proxy: %v", err)
	}
}

// count returns the value of a key, read from the server directly.
func count(t *testing.T, server *testkit.RedisServer, key string) int {
	t.Helper()
	n, err := server.Client(t).Get(t.Context(), key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func TestProxySlowsARoundTrip(t *testing.T) {
	_, proxy, client := proxied(t)
	took := func() time.Duration {
		start := time.Now()
		answers(t, client)
		return time.Since(start)
	}
	for name, set := range map[string]func(){
		"both ways": func() { proxy.Latency(100 * time.Millisecond) },
		"requests":  func() { proxy.Slow(100*time.Millisecond, 0) },
		"replies":   func() { proxy.Slow(0, 100*time.Millisecond) },
	} {
		set()
		if got := took(); got < 100*time.Millisecond {
			t.Errorf("%s: the round trip took %v, want at least 100 ms", name, got)
		}
	}
	proxy.Latency(0)
	testkit.Until(t, "a round trip takes less after the latency was removed", func() bool { return took() < 100*time.Millisecond })
}

func TestProxyBlackholes(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*testkit.Proxy)
		want int // of one increment
	}{
		{"replies", (*testkit.Proxy).BlackholeReplies, 1},
		{"requests", (*testkit.Proxy).BlackholeRequests, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server, proxy, client := proxied(t)
			key := testkit.KeyPrefix(t) + "n"
			tc.set(proxy)
			tc.set(proxy) // once more changes nothing
			if err := client.Incr(t.Context(), key).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("INCR through a black hole: %v, want a timeout", err)
			}
			if got := count(t, server, key); got != tc.want {
				t.Errorf("the server has %d, want %d", got, tc.want)
			}
			proxy.Reset()
			if got, err := client.Incr(t.Context(), key).Result(); err != nil || int(got) != tc.want+1 {
				t.Errorf("INCR after Reset: %d, %v, want %d", got, err, tc.want+1)
			}
		})
	}
}

func TestCutLastsUntilReset(t *testing.T) {
	_, proxy, client := proxied(t)
	open, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	proxy.Cut()
	if err := open.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a cut connection: %v, want io.EOF", err)
	}
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a new connection got an answer")
	}
	proxy.Cut() // once more changes nothing
	proxy.Reset()
	// After failed dials the client's pool retries with pauses.
	testkit.Until(t, "an answer after Reset", func() bool { return client.Ping(t.Context()).Err() == nil })
}

// As when a child process that is being started has a copy of the listener.
func TestResetWaitsForThePort(t *testing.T) {
	_, proxy, client := proxied(t)
	proxy.Cut()
	other, err := net.Listen("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { other.Close() })
	proxy.Reset()
	testkit.Until(t, "an answer after Reset", func() bool { return client.Ping(t.Context()).Err() == nil })
}
