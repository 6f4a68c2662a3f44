package rediswatch

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// settings are those of one server. The zero value is a server that has not answered yet.
type settings struct {
	policy string // maxmemory-policy
	aof    string // "yes" or "no"
	// denied: the server answers, but does not permit a command that was needed.
	denied bool
}

func (s settings) unknown() bool { return s.denied && s.policy == "" }

func (s settings) evicts() bool { return s.policy != "" && s.policy != noEviction }

// queryAll queries all servers behind a client and calls report for each, possibly from
// several goroutines at once. An error means that the server did not answer.
func queryAll(ctx context.Context, client redis.UniversalClient, report func(addr string, s settings, err error)) {
	switch c := client.(type) {
	case *redis.ClusterClient:
		// The error is either that of one node, which report has received, or means that
		// no node answers.
		_ = c.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error {
			s, _, err := query(ctx, node)
			report(node.Options().Addr, s, err)
			return nil
		})
	case *redis.Client:
		s, replicas, err := query(ctx, c)
		report(addrOf(c), s, err)
		for _, addr := range replicas {
			s, err := queryReplica(ctx, c, addr)
			report(addr, s, err)
		}
	}
}

// addrOf is a client's address. A client that asks sentinels for the primary has none.
func addrOf(c *redis.Client) string {
	addr := c.Options().Addr
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "the primary"
	}
	return addr
}

// queryReplica queries a replica that the primary lists, with the primary's credentials.
func queryReplica(ctx context.Context, primary *redis.Client, addr string) (settings, error) {
	o := primary.Options()
	replica := redis.NewClient(&redis.Options{
		Addr: addr, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, ClientName: o.ClientName,
		ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		DialerRetries: 1, MaxRetries: -1, PoolSize: 1,
	})
	defer replica.Close()
	s, _, err := query(ctx, replica)
	return s, err
}

// query reads the settings and the replicas of one server from INFO. What INFO lacks it
// reads with CONFIG GET, which managed servers often deny.
func query(ctx context.Context, node *redis.Client) (s settings, replicas []string, err error) {
	text, err := node.Info(ctx).Result()
	if err != nil && !denied(err) {
		return settings{}, nil, err
	}
	info := parseInfo(text)
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
		*value, s.denied = got[setting], s.denied || err != nil
	}
	return s, replicasOf(info), nil
}

// denied says whether the server answered that a command is not permitted (NOPERM) or not
// known (ERR), as after rename-command. Other errors, such as LOADING, are temporary.
func denied(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR")
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
func replicasOf(info map[string]string) (addrs []string) {
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
