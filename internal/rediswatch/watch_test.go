package rediswatch_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newWatch returns a watch and its log.
func newWatch(clients ...redis.UniversalClient) (*rediswatch.Watch, *strings.Builder) {
	var log strings.Builder
	return rediswatch.New(rediswatch.Config{Clients: clients, Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

func TestPolicies(t *testing.T) {
	server := testkit.NewRedis(t)
	client := server.Client(t)
	w, log := newWatch(client)
	for _, policy := range []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
		"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		err := w.Check(t.Context())
		if evicts := policy != "noeviction"; errors.Is(err, rediswatch.ErrEvicts) != evicts || !errors.Is(w.Evicts(), err) {
			t.Errorf("%s: %v", policy, err)
		} else if evicts && (!strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), server.Addr())) {
			t.Errorf("%q names neither the policy %s nor the server", err, policy)
		}
	}
	if got := w.Counts(); got != (rediswatch.Counts{WithoutAOF: 1}) {
		t.Errorf("%+v, want a server without AOF", got)
	}
	if err := client.ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	_ = w.Check(t.Context())
	if got := w.Counts(); got != (rediswatch.Counts{}) {
		t.Errorf("%+v with appendonly yes", got)
	}
	for _, text := range []string{"allkeys-random", "no longer evicts", "appendonly yes"} {
		if strings.Count(log.String(), text) != 1 {
			t.Errorf("the log does not contain %q exactly once:\n%s", text, log)
		}
	}
}

// Every server that holds the data, or may be promoted, is checked.
func TestEveryServerIsChecked(t *testing.T) {
	set := func(t *testing.T, addr, policy string) {
		t.Helper()
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// check makes one server after another evict keys, and expects the watch to notice.
	check := func(t *testing.T, w *rediswatch.Watch, addrs ...string) {
		t.Helper()
		for _, addr := range addrs {
			if err := w.Check(t.Context()); err != nil {
				t.Errorf("no server evicts, Check = %v", err)
			}
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
	t.Run("cluster", func(t *testing.T) {
		addrs := testkit.RedisCluster(t)
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		defer client.Close()
		w, _ := newWatch(client)
		check(t, w, addrs...)
	})
	t.Run("independent nodes", func(t *testing.T) {
		a, b := testkit.NewRedis(t), testkit.NewRedis(t)
		w, _ := newWatch(a.Client(t), b.Client(t))
		check(t, w, a.Addr(), b.Addr())
	})
}

// If INFO or CONFIG is forbidden, the other one is used. If both are, the server is unchecked.
func TestForbiddenCommands(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		evicts bool
		counts rediswatch.Counts
	}{
		"CONFIG": {[]string{"--rename-command", "CONFIG", ""}, true, rediswatch.Counts{Evicting: 1, WithoutAOF: 1}},
		"INFO by ACL": {[]string{"--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info"},
			true, rediswatch.Counts{Evicting: 1, WithoutAOF: 1}},
		"both by ACL": {[]string{"--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info", "-config"},
			false, rediswatch.Counts{Unchecked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru")
			client := server.Client(t)
			if c.args[0] == "--user" {
				args := []any{"acl", "setuser"}
				for _, rule := range c.args[1:] {
					args = append(args, rule)
				}
				if err := client.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				server = testkit.NewRedis(t, append(c.args, "--maxmemory-policy", "allkeys-lru")...)
				client = server.Client(t)
			}
			w, log := newWatch(client)
			if err := w.Check(t.Context()); (err != nil) != c.evicts || w.Counts() != c.counts {
				t.Errorf("%v, %+v", err, w.Counts())
			}
			if logged := strings.Contains(log.String(), "cannot tell whether Redis evicts keys"); logged != (c.counts.Unchecked == 1) {
				t.Errorf("the log is\n%s", log)
			}
		})
	}
}

// A server that does not answer keeps its latest known settings.
func TestServerThatDoesNotAnswer(t *testing.T) {
	server := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru")
	w, _ := newWatch(redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true}))
	if err := w.Check(t.Context()); err == nil {
		t.Fatal("the policy was not detected")
	}
	server.Kill()
	if err := w.Check(t.Context()); err == nil || w.Counts().Evicting != 1 {
		t.Errorf("%v, %+v after the server was killed", err, w.Counts())
	}
}

// A server that denies its settings from now on keeps its latest known ones too, and is counted as unchecked.
func TestServerThatDeniesLater(t *testing.T) {
	server := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru")
	client := server.Client(t)
	w, log := newWatch(client)
	_ = w.Check(t.Context())
	if err := client.Do(t.Context(), "acl", "setuser", "default", "-info", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context()); !errors.Is(err, rediswatch.ErrEvicts) ||
		w.Counts() != (rediswatch.Counts{Evicting: 1, WithoutAOF: 1, Unchecked: 1}) {
		t.Errorf("%v, %+v", err, w.Counts())
	}
	for text, times := range map[string]int{"NOPERM": 1, "latest_known_policy=allkeys-lru": 1, "set maxmemory-policy": 1, "no longer": 0} {
		if strings.Count(log.String(), text) != times {
			t.Errorf("the log does not contain %q %d times:\n%s", text, times, log)
		}
	}
}

// A replica that has another password than its primary is unchecked.
func TestReplicaWithItsOwnPassword(t *testing.T) {
	setPassword := func(client *redis.Client, password string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
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
			if err := own.Do(t.Context(), "auth", "its-own").Err(); err != nil {
				t.Fatal(err)
			}
			setPassword(own, password) // as the primary's
			if err := w.Check(t.Context()); err != nil || w.Counts() != (rediswatch.Counts{}) {
				t.Errorf("%v, %+v with the same password", err, w.Counts())
			}
		})
	}
}

// While a primary is down nothing lists its replicas, and one of them may be promoted.
func TestReplicasOfAPrimaryThatIsDown(t *testing.T) {
	for name, takeDown := range map[string]func(*testkit.RedisServer){
		"killed": (*testkit.RedisServer).Kill,
		"paused": (*testkit.RedisServer).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := testkit.NewRedis(t)
			evicting := testkit.NewRedisReplica(t, primary, "--maxmemory-policy", "allkeys-lru")
			later := testkit.NewRedisReplica(t, primary)
			client := redis.NewClient(&redis.Options{Addr: primary.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
			defer client.Close()
			w := rediswatch.New(rediswatch.Config{
				Clients: []redis.UniversalClient{client}, Log: slog.New(slog.DiscardHandler), Timeout: time.Second,
			})
			check := func(when string, evicts int) {
				t.Helper()
				if err := w.Check(t.Context()); errors.Is(err, rediswatch.ErrEvicts) != (evicts > 0) || w.Counts().Evicting != evicts {
					t.Errorf("%s: %v, %+v; want %d that evict", when, err, w.Counts(), evicts)
				}
			}
			check("all answer", 1)
			takeDown(primary)
			check("the primary is down", 1)
			set := func(replica *testkit.RedisServer, policy string) {
				t.Helper()
				if err := replica.Client(t).ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set(later, "volatile-lru")
			check("another replica evicts too", 2)
			set(evicting, "noeviction")
			set(later, "noeviction")
			check("both are repaired", 0)
			set(evicting, "allkeys-lru")
			check("one evicts again", 1)
			evicting.Kill()
			check("it is down as well", 1)
		})
	}
}
