package rediswatch

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// settings are those of one server. The zero value is a server that has not answered yet.
type settings struct {
	policy string // maxmemory-policy
	aof    string // "yes" or "no"
	// denied is the error of a server that answers, but does not tell its policy. Policy and aof are then
	// those that it told last.
	denied string
}

func (s settings) unchecked() bool { return s.denied != "" }

func (s settings) evicts() bool { return s.policy != "" && s.policy != noEviction }

// group is a configured client and the servers that the latest check found behind it.
type group struct {
	client redis.UniversalClient
	found  []string // addresses
}

// queryAll queries all servers behind a client and calls report for each, possibly from
// several goroutines at once. An error means that the server did not answer. While nothing
// lists the servers, as a primary lists its replicas, those that were found before are
// reported. Each query ends after the timeout.
func (g *group) queryAll(ctx context.Context, timeout time.Duration, report func(addr string, s settings, err error)) {
	switch c := g.client.(type) {
	case *redis.ClusterClient:
		listing, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := c.ForEachShard(listing, func(ctx context.Context, node *redis.Client) error {
			set, _, err := query(ctx, node)
			report(node.Options().Addr, set, err)
			return nil
		})
		if err != nil { // no node lists the others
			for _, addr := range g.found {
				report(addr, settings{}, err)
			}
		}
	case *redis.Client:
		asking, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		set, replicas, err := query(asking, c)
		report(addrOf(c), set, err)
		if replicas == nil {
			replicas = slices.DeleteFunc(slices.Clone(g.found), func(addr string) bool { return addr == addrOf(c) })
		}
		var queries sync.WaitGroup
		for _, addr := range replicas {
			queries.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				set, err := queryReplica(ctx, c, addr)
				report(addr, set, err)
			})
		}
		queries.Wait()
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

// query reads the settings and the replicas of one server from INFO; replicas is nil if the
// server does not list them. What INFO lacks it reads with CONFIG GET, which managed servers
// often deny.
func query(ctx context.Context, node *redis.Client) (s settings, replicas []string, err error) {
	text, err := node.Info(ctx).Result()
	if err != nil && !denied(err) {
		return settings{}, nil, err
	}
	info := parseInfo(text)
	if err == nil {
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
		if *value = got[setting]; value != &s.policy || *value != "" {
			continue
		}
		if s.denied = "no such setting"; err != nil {
			s.denied = err.Error()
		}
	}
	return s, replicas, nil
}

// denied says whether the server answered that a command is not permitted (NOPERM) or not
// known (ERR), as after rename-command, or that it has another password (NOAUTH, WRONGPASS),
// as a replica may have. Other errors, such as LOADING, are temporary.
func denied(err error) bool {
	return slices.ContainsFunc([]string{"NOPERM", "ERR", "NOAUTH", "WRONGPASS"}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
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
