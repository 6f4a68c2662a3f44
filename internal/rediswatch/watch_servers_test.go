package rediswatch_test

import (
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Every server that holds the data, or may be promoted, is checked.
func TestEveryServerIsChecked(t *testing.T) {
	set := func(t *testing.T, addr, policy string) {
		t.Helper()
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		fail.NowIf(t, client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
	}
	// check makes one server after another evict keys, and expects the watch to notice.
	check := func(t *testing.T, w *rediswatch.Watch, addrs ...string) {
		t.Helper()
		for _, addr := range addrs {
			fail.If(t, w.Check(t.Context()), "while no server evicts")
			set(t, addr, "volatile-ttl")
			if err := w.Check(t.Context()); err == nil || w.Counts().Evicting != 1 {
				t.Errorf("%s evicts, Check = %v, Counts = %+v", addr, err, w.Counts())
			}
			set(t, addr, "noeviction")
		}
	}
	t.Run("replica", func(t *testing.T) {
		primary := testkit.NewRedis(t)
		replica := testkit.NewRedisReplica(t, primary)
		w, _ := newWatch(primary.Client(t))
		check(t, w, primary.Addr(), replica.Addr())
	})
	t.Run("sentinels", func(t *testing.T) {
		sentinels := testkit.RedisSentinel(t)
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinels.MasterName, SentinelAddrs: sentinels.Addrs})
		defer client.Close()
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: sentinels.Addrs[0]})
		defer sentinel.Close()
		replicas, err := sentinel.Replicas(t.Context(), sentinels.MasterName).Result()
		fail.NowIf(t, err)
		w, _ := newWatch(client)
		check(t, w, sentinels.Primary(), net.JoinHostPort(replicas[0]["ip"], replicas[0]["port"]))
	})
	t.Run("cluster", func(t *testing.T) {
		addrs := testkit.RedisCluster(t)
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		defer client.Close()
		w, _ := newWatch(client)
		check(t, w, addrs...)
	})
}

// What real servers deny by a renamed command or by rights, and how they say so.
func TestDeniedByARealServer(t *testing.T) {
	primary := testkit.NewRedis(t, "--rename-command", "CONFIG", "", "--appendonly", "yes", "--maxmemory-policy", "allkeys-lru")
	client := primary.Client(t)
	w, log := newWatch(client)
	expect(t, "with INFO", w, rediswatch.Counts{Evicting: 1})
	fail.NowIf(t, client.Do(t.Context(), "acl", "setuser", "default", "-info").Err())
	expect(t, "without INFO", w, rediswatch.Counts{Evicting: 1, Unchecked: 1})
	expectLog(t, log, map[string]int{unchecked: 1, "ERR unknown command": 1, "latest_known_policy=allkeys-lru": 1})
}

// A replica that has another password than its primary is unchecked.
func TestReplicaWithItsOwnPassword(t *testing.T) {
	setPassword := func(client *redis.Client, password string) {
		t.Helper()
		fail.NowIf(t, client.ConfigSet(t.Context(), "requirepass", password).Err())
	}
	for answer, password := range map[string]string{"NOAUTH": "", "WRONGPASS": "the-primary's"} {
		t.Run(answer, func(t *testing.T) {
			primary := testkit.NewRedis(t, "--appendonly", "yes")
			replica := testkit.NewRedisReplica(t, primary, "--appendonly", "yes")
			own := replica.Client(t)
			setPassword(own, "its-own")
			if password != "" {
				setPassword(primary.Client(t), password)
			}
			client := redis.NewClient(&redis.Options{Addr: primary.Addr(), Password: password})
			defer client.Close()
			w, log := newWatch(client)
			if err := w.Check(t.Context()); err != nil || w.Counts() != (rediswatch.Counts{Unchecked: 1}) {
				t.Errorf("%v, %+v", err, w.Counts())
			}
			if !strings.Contains(log.String(), answer) || !strings.Contains(log.String(), replica.Addr()) {
				t.Errorf("the log names neither the replica nor its answer:\n%s", log)
			}
			fail.NowIf(t, own.Do(t.Context(), "auth", "its-own").Err())
			setPassword(own, password) // as the primary's
			if err := w.Check(t.Context()); err != nil || w.Counts() != (rediswatch.Counts{}) {
				t.Errorf("%v, %+v with the same password", err, w.Counts())
			}
		})
	}
}
