package testkit_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestSharedRedisServesEveryTest(t *testing.T) {
	first, second := testkit.Redis(t), testkit.Redis(t)
	if first.Addr() != second.Addr() {
		t.Errorf("two servers, %s and %s, want one", first.Addr(), second.Addr())
	}
	if err := first.Client(t).Set(t.Context(), testkit.KeyPrefix(t)+"x", 1, 0).Err(); err != nil {
		t.Error(err)
	}
	if a, b := testkit.KeyPrefix(t), testkit.KeyPrefix(t); a == b || !strings.HasPrefix(a, "t-TestSharedRedisServesEveryTest-") {
		t.Errorf("key prefixes %q and %q, want two that name the test", a, b)
	}
}

func TestRedisKeepsItsAppendOnlyFileAfterAKill(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want error
	}{
		{"with append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, nil},
		{"without", nil, redis.Nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := testkit.NewRedis(t, tc.args...)
			client := server.Client(t)
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			addr := server.Addr()
			server.Kill()
			if err := client.Ping(t.Context()).Err(); err == nil {
				t.Error("a killed server answers")
			}
			server.Restart()
			if server.Addr() != addr {
				t.Errorf("restarted at %s, want %s", server.Addr(), addr)
			}
			if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, tc.want) {
				t.Errorf("get after the restart: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	server := testkit.NewRedis(t)
	client := server.Client(t)
	server.Pause()

	answered := make(chan error, 1)
	go func() { answered <- client.Ping(context.WithoutCancel(t.Context())).Err() }()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered (%v)", err)
	case <-time.After(200 * time.Millisecond):
	}
	server.Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestRedisLeavesNoFolder(t *testing.T) {
	var dir string
	t.Run("server", func(t *testing.T) {
		dir = testkit.NewRedis(t).Dir()
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder %s is still there (%v)", dir, err)
	}
}

func TestRedisClusterServesAllSlots(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t)})
	defer client.Close()
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := client.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestRedisSentinelPromotesTheReplica(t *testing.T) {
	sentinel := testkit.RedisSentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs})
	defer client.Close()
	if err := client.Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := sentinel.Primary()
	sentinel.KillPrimary()

	testkit.Until(t, "a write to succeed on the promoted replica", func() bool {
		return client.Set(t.Context(), "k", 2, 0).Err() == nil
	})
	// The client may have learned of it from another sentinel than the one queried here.
	testkit.Until(t, "the sentinel to name another primary than "+before, func() bool {
		return sentinel.Primary() != before
	})
}
