package byhand

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

const (
	stock = 1000 // more than there are moves
	// nodeTimeout is the time that one of several nodes has to answer: shorter than the shortest
	// lease, and long enough for a busy machine.
	nodeTimeout = 900 * time.Millisecond
)

// place is what a bench stands on: the store of its lock, the way of each process to that store,
// and the stock.
type place struct {
	run     *testbed.Rig
	setup   Setup
	key     string // as a mechanism is asked for it
	voucher int64

	// store is what the store as a whole says of the key, and remove deletes it there.
	store  lock.Inspector
	remove func(ctx context.Context) error
	ways   [][]*testkit.Proxy // of each process
	config lockclient.Config  // of all of them, without the addresses

	primary *primary // nil: there is no replica
	nodes   []*node
}

// primary is a Redis server with a replica.
type primary struct {
	*testkit.RedisServer
	replica *testkit.RedisServer
	held    lock.Inspector // what the replica holds
	link    *testkit.Proxy // from the primary to its replica
	address *testkit.Proxy // of the one that serves
	lag     func()         // ends the fault that the replica receives nothing; nil: it does
}

// node is one of several independent Redis servers.
type node struct {
	*testkit.RedisServer
	name     string
	observer *testbed.Observer
	down     func() // ends the fault that it is down
}

// sampleEvery is the time between two looks at the key: short for somebody who makes moves by hand.
const sampleEvery = 10 * time.Millisecond

// newPlace starts the servers of a bench, and observes the key.
func newPlace(r *testbed.Rig, s Setup) *place {
	r.SampleEvery(sampleEvery)
	p := &place{run: r, setup: s, key: "stock:" + strings.ToLower(rand.Text()[:8]), voucher: 1}
	p.config = lockclient.Config{Prefix: testbed.KeyPrefix}
	if lease := time.Duration(s.Lease) * time.Second; s.Renew {
		p.config.Watchdog = lease
	} else if s.mechanism().Ends == lock.EndsWithSession {
		p.config.ZKSession = lease
	}
	var addrs []string
	switch s.mechanism().Store {
	case lock.InRedis:
		addrs = p.onRedis()
	case lock.InNodes:
		addrs = p.onNodes()
	case lock.InMySQL:
		addrs = p.onMySQL()
	case lock.InZooKeeper:
		addrs = []string{r.ZooKeeper().Addr()}
		p.onShared()
	}
	for range s.Processes {
		var ways []*testkit.Proxy
		for _, addr := range addrs {
			ways = append(ways, testkit.NewProxy(r, addr))
		}
		p.ways = append(p.ways, ways)
	}
	if p.config.MySQLDSN == "" {
		p.stockInFile()
	}
	r.Observe(p.store, p.key)
	return p
}

// onRedis uses the shared server, a Valkey, or a primary with a replica of the bench's own.
func (p *place) onRedis() (addrs []string) {
	r := p.run
	client := r.RedisClient()
	switch {
	case p.setup.Lock == "native" && !p.setup.Replica:
		server := r.OwnValkey()
		client = p.client(server.Addr())
		p.store = p.inspector(client)
		addrs = []string{server.Addr()}
	case !p.setup.Replica:
		p.store = r.Inspector(p.setup.Lock)
		addrs = []string{r.Redis().Addr()}
	default:
		one := &primary{RedisServer: r.OwnRedis(), replica: r.OwnRedis()}
		one.link, one.address = testkit.NewProxy(r, one.Addr()), testkit.NewProxy(r, one.Addr())
		one.replica.ReplicaOf(one.link.Addr())
		one.held = p.inspector(p.client(one.replica.Addr()))
		r.ObserveServer("its replica", one.held, p.key)
		client = p.client(one.address.Addr())
		p.store, p.primary = p.inspector(client), one
		addrs = []string{one.address.Addr()}
	}
	name := redisio.Key(testbed.KeyPrefix, p.setup.Lock, p.key, "")
	p.remove = func(ctx context.Context) error { return client.Del(ctx, name).Err() }
	return addrs
}

// client is one that is told at once when its server is gone.
func (p *place) client(addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	p.run.Cleanup(func() { p.run.Must(client.Close()) })
	return client
}

// inspector asks the mechanism what a server of the bench's own holds.
func (p *place) inspector(client *redis.Client) lock.Inspector {
	return p.inspectorOf(lockers.Servers{Redis: client})
}

func (p *place) inspectorOf(servers lockers.Servers) lock.Inspector {
	locker, err := p.run.Lockers(servers, lockers.Config{Prefix: testbed.KeyPrefix, NodeTimeout: nodeTimeout}).Locker(p.setup.Lock)
	p.run.Must(err)
	inspector, ok := locker.(lock.Inspector)
	if !ok {
		p.run.Fatalf("%s does not say who holds a key", p.setup.Lock)
	}
	return inspector
}

// onNodes starts the independent servers.
func (p *place) onNodes() (addrs []string) {
	var servers lockers.Servers
	for i, server := range p.run.OwnNodes(nodeCount) {
		n := &node{RedisServer: server, name: fmt.Sprintf("node %d", i+1)}
		p.nodes = append(p.nodes, n)
		addrs = append(addrs, server.Addr())
		servers.Nodes = append(servers.Nodes, p.client(server.Addr()))
		p.observe(n)
	}
	p.store = p.inspectorOf(servers)
	p.remove = p.forceRelease
	return addrs
}

// observe samples what a node holds, with connections of its own: those to a node that was dead
// are slow to notice that it is back.
func (p *place) observe(n *node) {
	one, err := quorum.New(p.setup.Lock, 1, []quorum.Client{p.client(n.Addr())}, quorum.Config{Prefix: testbed.KeyPrefix})
	p.run.Must(err)
	p.run.Cleanup(func() { p.run.Must(one.Close()) })
	n.observer = p.run.ObserveServer(n.name, one, p.key)
}

// onMySQL uses the shared database, also for the stock.
func (p *place) onMySQL() (addrs []string) {
	r := p.run
	p.config.MySQLDSN = r.MariaDB().DSN
	config, err := mysql.ParseDSN(p.config.MySQLDSN)
	p.run.Must(err)
	p.voucher = r.NextID()
	p.sell(r.DB())
	p.onShared()
	return []string{config.Addr}
}

// onShared inspects the shared servers.
func (p *place) onShared() {
	p.store = p.run.Inspector(p.setup.Lock)
	p.remove = p.forceRelease
}

// forceRelease deletes the key as an operator does.
func (p *place) forceRelease(ctx context.Context) error {
	_, err := p.store.(lock.ForceReleaser).ForceRelease(ctx, p.key)
	return err
}

// stockInFile puts the stock into a file that all processes use.
func (p *place) stockInFile() {
	p.config.SQLite = testkit.SQLite(p.run).DSN
	db, err := database.Open(p.run.Context(), database.Config{SQLite: p.config.SQLite})
	p.run.Must(err)
	p.run.Cleanup(func() { p.run.Must(db.Close()) })
	_, err = db.Migrate(p.run.Context())
	p.run.Must(err)
	p.sell(db)
}

func (p *place) sell(db *database.DB) {
	now := time.Now()
	p.run.Must(db.Vouchers().CreateVoucher(p.run.Context(), &voucher.Voucher{
		ID: p.voucher, Title: "by hand", Stock: stock, InitialStock: stock, BeginAt: now, EndAt: now.Add(time.Hour),
		Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}))
}

// start starts a process, which knows the servers by its own ways to them.
func (p *place) start(number int, name string) *lockclient.Client {
	config := p.config
	config.Name = name
	var addrs []string
	for _, way := range p.ways[number-1] {
		addrs = append(addrs, way.Addr())
	}
	switch p.setup.mechanism().Store {
	case lock.InRedis:
		config.RedisAddrs = addrs
	case lock.InNodes:
		config.NodeAddrs, config.NodeTimeout = addrs, nodeTimeout
	case lock.InMySQL:
		to, err := mysql.ParseDSN(config.MySQLDSN)
		p.run.Must(err)
		to.Addr = addrs[0]
		config.MySQLDSN = to.FormatDSN()
	case lock.InZooKeeper:
		config.ZooKeeperAddrs = addrs
	}
	return lockclient.Start(p.run, config)
}

// cut cuts a process off from the store, and restores its network afterwards.
func (p *place) cut(number int, name string) (restore func()) {
	over := p.run.FaultOf(name, i18n.F("%s is cut off from %s", i18n.Name(name), p.storeName()))
	for _, way := range p.ways[number-1] {
		way.Cut()
	}
	return func() {
		for _, way := range p.ways[number-1] {
			way.Reset()
		}
		over()
	}
}

func (p *place) storeName() string { return testbed.LockStore(p.setup.Lock) }

// lag keeps from the replica what the primary does, and catchUp sends it.
func (p *place) lag() {
	p.primary.link.Cut()
	p.primary.lag = p.run.Fault(i18n.F("no replication"))
}

func (p *place) catchUp(ctx context.Context) error {
	p.primary.link.Reset()
	client := p.client(p.primary.replica.Addr())
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for client.InfoMap(ctx, "replication").Item("Replication", "master_link_status") != "up" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.primary.lag()
	p.primary.lag = nil
	return nil
}

// The data of a replica that takes the primary's place.
var (
	errWithKey    = errors.New("bench: the replica has the key")
	errWithoutKey = errors.New("bench: the replica has no key")
)

// failOver kills the primary and puts its replica into its place, with what that has received.
func (p *place) failOver(ctx context.Context) error {
	p.run.Fault(i18n.F("the primary is dead"))
	p.primary.Kill()
	if p.primary.lag != nil {
		p.primary.lag()
	}
	p.primary.replica.Promote()
	has, err := p.primary.held.Inspect(ctx, p.key)
	if err != nil {
		return err
	}
	p.primary.address.SetUpstream(p.primary.replica.Addr())
	if has.Owner == "" {
		p.run.Fault(i18n.F("the replica takes its place, without the key"))()
		return errWithoutKey
	}
	p.run.Fault(i18n.F("the replica takes its place, with the key"))()
	return errWithKey
}

func (p *place) killNode(number int) {
	n := p.nodes[number-1]
	n.down = p.run.Fault(i18n.F("%s down", i18n.Name(n.name)))
	n.Kill()
	n.observer.Lose("killed")
}

func (p *place) startNode(number int) {
	n := p.nodes[number-1]
	n.Restart()
	n.down()
	p.run.Fault(i18n.F("%s is back, empty", i18n.Name(n.name)))()
	p.observe(n)
}
