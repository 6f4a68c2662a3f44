package testkit_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
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
	fail.NowIf(t, client.Ping(t.Context()).Err(), "no answer through the proxy")
}

func TestProxySlowsARoundTrip(t *testing.T) {
	_, proxy, client := proxied(t)
	took := func() time.Duration {
		start := time.Now()
		answers(t, client)
		return time.Since(start)
	}
	proxy.Latency(100 * time.Millisecond)
	if got := took(); got < 100*time.Millisecond {
		t.Errorf("the round trip took %v, want at least 100 ms", got)
	}
	proxy.Latency(0)
	testkit.Until(t, "a round trip takes less after the latency was removed", func() bool { return took() < 100*time.Millisecond })
}

// The server executes what it is sent, and the client hears nothing of it.
func TestProxyBlackholesReplies(t *testing.T) {
	server, proxy, client := proxied(t)
	key := testkit.KeyPrefix(t) + "n"
	proxy.BlackholeReplies()
	proxy.BlackholeReplies() // once more changes nothing
	if err := client.Incr(t.Context(), key).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("INCR through a black hole: %v, want a timeout", err)
	}
	if got, err := server.Client(t).Get(t.Context(), key).Int(); got != 1 || err != nil {
		t.Errorf("the server has %d, %v, want 1", got, err)
	}
	proxy.Reset()
	if got, err := client.Incr(t.Context(), key).Result(); err != nil || got != 2 {
		t.Errorf("INCR after Reset: %d, %v, want 2", got, err)
	}
}

func TestCutLastsUntilReset(t *testing.T) {
	_, proxy, client := proxied(t)
	open, err := net.Dial("tcp", proxy.Addr())
	fail.NowIf(t, err)
	defer open.Close()
	proxy.Cut()
	fail.NowIf(t, open.SetReadDeadline(time.Now().Add(10*time.Second)))
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
	fail.NowIf(t, err)
	time.AfterFunc(50*time.Millisecond, func() { other.Close() })
	proxy.Reset()
	testkit.Until(t, "an answer after Reset", func() bool { return client.Ping(t.Context()).Err() == nil })
}
