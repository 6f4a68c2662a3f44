package rediswatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// settings are those of one server.
type settings struct {
	policy string    // maxmemory-policy
	aof    string    // "yes" or "no"
	told   time.Time // when it told the policy
	// unknown says why the server is unchecked: its answer, or noAnswer. Policy and aof are then those that it told
	// last.
	unknown string
}

// noAnswer is why a server is unchecked that has not answered since it was listed.
const noAnswer = "no answer"

func (s settings) unchecked() bool { return s.unknown != "" }

func (s settings) evicts() bool { return s.policy != "" && s.policy != noEviction }

// A report tells the settings of one server. An error means that it did not answer.
type report func(addr string, s settings, err error)

// An asker asks one server for its settings.
type asker func(ctx context.Context) (settings, error)

// group is a configured client and the servers behind it.
type group struct {
	client redis.UniversalClient
	// listed are the servers that the primary, or the cluster, listed last. Used by queryAll only.
	listed map[string]asker
	known  map[string]settings // by address
}

// queryAll asks all servers behind a client, reports each one as soon as it answers, and returns the addresses of those
// that are there now. Reports may come from several goroutines at once. Servers that are known are asked before the
// list is there: what should list them may hang. While nothing lists the servers, those that were listed last count.
// The listing and each query end after the timeout.
func (g *group) queryAll(ctx context.Context, timeout time.Duration, report report) map[string]bool {
	var queries sync.WaitGroup
	ask := func(addr string, server asker) {
		queries.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			s, err := server(ctx)
			report(addr, s, err)
		})
	}
	before := g.listed
	for addr, server := range before {
		ask(addr, server)
	}
	there := map[string]bool{}
	listing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	listed := g.list(listing, func(addr string, s settings, err error) {
		there[addr] = true
		report(addr, s, err)
	})
	if listed != nil {
		g.listed = listed
	}
	for addr, server := range g.listed {
		there[addr] = true
		if before[addr] == nil {
			ask(addr, server)
		}
	}
	queries.Wait()
	return there
}

// list returns the nodes of a cluster, or the replicas of a primary, by address; nil if nothing lists them. It reports
// the primary itself, as its answer has both its settings and its replicas.
func (g *group) list(ctx context.Context, report report) map[string]asker {
	switch c := g.client.(type) {
	case *redis.ClusterClient:
		nodes, err := clusterNodes(ctx, c)
		if err != nil && g.listed == nil {
			report("the cluster", settings{}, err)
		}
		return nodes
	case *redis.Client:
		s, addrs, err := queryPrimary(ctx, c)
		report(addrOf(c), s, err)
		if addrs == nil {
			return nil
		}
		replicas := map[string]asker{}
		for _, addr := range addrs {
			replicas[addr] = func(ctx context.Context) (settings, error) { return queryReplica(ctx, c, addr) }
		}
		return replicas
	default:
		report("the servers", settings{unknown: fmt.Sprintf("a %T cannot list them", c)}, nil)
		return nil
	}
}

// clusterNodes returns the nodes of a cluster. If no node lists them in time, they are those that the client knows.
func clusterNodes(ctx context.Context, c *redis.ClusterClient) (map[string]asker, error) {
	var mu sync.Mutex
	nodes := map[string]asker{}
	err := c.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes[node.Options().Addr] = func(ctx context.Context) (settings, error) {
			s, _, err := query(ctx, node)
			return s, err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// behindSentinels is what a primary is called that sentinels name.
const behindSentinels = "the primary"

// addrOf is a client's address. A client that asks sentinels for the primary has none.
func addrOf(c *redis.Client) string {
	addr := c.Options().Addr
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return behindSentinels
	}
	return addr
}

// queryReplica queries a replica that the primary lists, with the primary's credentials.
func queryReplica(ctx context.Context, primary *redis.Client, addr string) (settings, error) {
	o := primary.Options()
	dial := o.Dialer
	if addrOf(primary) == behindSentinels { // it connects to the primary, whatever the address
		dial = nil
	}
	replica := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: dial, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, ClientName: o.ClientName,
		ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		DialerRetries: 1, MaxRetries: -1, PoolSize: 1,
	})
	defer replica.Close()
	s, _, err := query(ctx, replica)
	return s, err
}

// queryPrimary queries a server that lists its replicas. If INFO does not list them, ROLE does.
func queryPrimary(ctx context.Context, c *redis.Client) (settings, []string, error) {
	s, replicas, err := query(ctx, c)
	if err != nil || replicas != nil {
		return s, replicas, err
	}
	role, err := c.Do(ctx, "role").Slice()
	if denied(err) {
		// Its own settings may be known, but a replica that evicts would go unnoticed.
		s.unknown = cmp.Or(s.unknown, "its replicas are not known: "+err.Error())
		return s, nil, nil
	}
	return s, replicasOfRole(role), err
}

// query reads the settings and the replicas of one server from INFO; replicas is nil if INFO does not list them. What
// INFO lacks it reads with CONFIG GET, which managed servers often deny.
func query(ctx context.Context, node *redis.Client) (s settings, replicas []string, err error) {
	text, err := node.Info(ctx).Result()
	if err != nil && !denied(err) {
		return settings{}, nil, err
	}
	info := parseInfo(text)
	if info["role"] != "" {
		replicas = replicasOf(info)
	}
	s.policy = info["maxmemory_policy"]
	switch info["aof_enabled"] {
	case "0":
		s.aof = "no"
	case "1":
		s.aof = "yes"
	}
	for setting, value := range map[string]*string{"maxmemory-policy": &s.policy, "appendonly": &s.aof} {
		if *value != "" {
			continue
		}
		got, err := node.ConfigGet(ctx, setting).Result()
		if err != nil && !denied(err) {
			return settings{}, nil, err
		}
		if *value = got[setting]; *value != "" {
			continue
		}
		if s.unknown = "a setting is missing"; err != nil {
			s.unknown = err.Error()
		}
	}
	return s, replicas, nil
}

// denied says whether the server answered that a command is not permitted (NOPERM) or not known (ERR), as after
// rename-command, or that it has another password (NOAUTH, WRONGPASS), as a replica may have. Other errors, such as
// LOADING, are temporary.
func denied(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && slices.ContainsFunc([]string{"NOPERM ", "ERR ", "NOAUTH ", "WRONGPASS "}, func(prefix string) bool {
		// redis.HasErrorPrefix does not see "ERR ": it removes that itself.
		return strings.HasPrefix(answer.Error(), prefix)
	})
}

// parseInfo reads the lines "field:value" of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[key] = value
		}
	}
	return info
}

// replicasOf reads the addresses in the lines "slaveN:ip=…,port=…,state=…" of INFO.
func replicasOf(info map[string]string) []string {
	addrs := []string{}
	for n := 0; ; n++ {
		line, found := info["slave"+strconv.Itoa(n)]
		if !found {
			return addrs
		}
		replica := map[string]string{}
		for part := range strings.SplitSeq(line, ",") {
			key, value, _ := strings.Cut(part, "=")
			replica[key] = value
		}
		if replica["ip"] != "" && replica["port"] != "" {
			addrs = append(addrs, net.JoinHostPort(replica["ip"], replica["port"]))
		}
	}
}

// replicasOfRole reads the addresses in a primary's answer to ROLE: "master", an offset, and address, port and offset
// of each replica.
func replicasOfRole(role []any) []string {
	if len(role) < 3 || role[0] != "master" {
		return nil
	}
	addrs := []string{}
	replicas, _ := role[2].([]any)
	for _, r := range replicas {
		if replica, ok := r.([]any); ok && len(replica) >= 2 {
			addrs = append(addrs, net.JoinHostPort(fmt.Sprint(replica[0]), fmt.Sprint(replica[1])))
		}
	}
	return addrs
}
