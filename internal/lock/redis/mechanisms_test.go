package redis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	. "seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/native"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/lock/redis/waited"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// mechanisms are all locks in Redis, from the weakest to the strongest, with what each promises and where it breaks.
func mechanisms() []redisstore.Mechanism {
	noReleaseAfterLostGrant := Breaks("a grant whose reply was lost is not released: DEL might delete another holder's lock")
	noCommonCounter := Polling().
		Except(Breaks("no tokens: independent nodes have no common counter"), TokensGrow)
	return []redisstore.Mechanism{
		{
			Name: "setnx",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return setnx.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: BlindDelete().
				Except(noReleaseAfterLostGrant, CancelLeavesNothing).
				Except(Breaks("no expiry"), ExpiryLetsWaiterIn, KeepsGivenLease, LeaseRunsOut, FreedAfterDeath, ExtendsLease).
				Except(Holds(), SurvivesLongHold),
		},
		{
			Name: "setnx-expire",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return setnxexpire.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: BlindDelete().
				Except(Breaks("a grant whose reply was lost is not released, and has no expiry"), CancelLeavesNothing),
		},
		{
			Name: "naive",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return naive.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: BlindDelete().Except(noReleaseAfterLostGrant, CancelLeavesNothing),
		},
		{
			Name: "thread-id",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return threadid.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: FixedLease().
				Except(Breaks("SET NX tells only that the key exists"), NamesHolder, RefusesWrongKind).
				Except(NotApplicable("giving up an attempt deletes any key with the same number: whether that is the holder's depends on timing"),
					CancelledWaitersAreGone).
				Except(Breaks("the client repeats the command, and its own first one refuses it"), SurvivesLostGrantReply).
				Except(Breaks("two processes have the same numbers"), ReleasesOnlyOwn, FollowsModel).
				Except(Breaks("GET, compare and DEL are three steps"), ReleasesAtomically).
				Except(Breaks("the number is not an owner"), SaysWhoHolds),
		},
		{
			Name: "uuid",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return uuid.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: FixedLease().Except(Breaks("GET, compare and DEL are three steps"), ReleasesAtomically),
		},
		{
			Name: "lua",
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return lua.New(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
			},
			Promises: FixedLease().
				Except(Breaks("the client repeats the script, which finds no key and returns expired"), SurvivesLostReleaseReply),
		},
		{
			Name:   "native",
			Server: func(t testkit.TB) *testkit.RedisServer { return testkit.NewValkey(t) },
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return native.New(c[0], native.Config{Config: plain.Config{Prefix: s.Prefix, Poll: s.Poll}, WatchdogTimeout: s.Renewed})
			},
			Promises: Polling().
				Except(Breaks("the client repeats the command, which finds no key"), SurvivesLostReleaseReply),
		},
		{
			Name: "multi", Nodes: 3, Quorum: 3, Promises: noCommonCounter,
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return multi.New(nodes(c), ofNodes(s))
			},
		},
		{
			Name: "red", Nodes: 3, Quorum: 2, Promises: noCommonCounter,
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return red.New(nodes(c), ofNodes(s))
			},
		},
		{
			Name: "reentrant", ErrorsInScripts: true, Promises: NoTokens(),
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return reentrant.New(c[0], ofSession(s))
			},
		},
		{
			Name: "waited", ErrorsInScripts: true, Promises: NoTokens(),
			Server: primaryWithReplica,
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return waited.New(c[0], ofSession(s))
			},
		},
		{
			Name: "fair", ErrorsInScripts: true, Promises: NoTokens(),
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return fair.New(c[0], ofSession(s))
			},
		},
		{ // The locker itself is the writers'.
			Name: "rw", ErrorsInScripts: true, Promises: NoTokens().AndShared(),
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return rw.New(c[0], ofSession(s))
			},
		},
		{ // The counters of the tokens outlive their locks for an hour.
			Name: "fenced", ErrorsInScripts: true, Keeps: ":token", Promises: AllHold(),
			Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
				return fenced.New(c[0], ofSession(s))
			},
		},
	}
}

func ofSession(s redisstore.Setting) session.Config {
	return session.Config{Prefix: s.Prefix, WatchdogTimeout: s.Renewed, CommandTimeout: s.Patience, QueueEntryTTL: s.Patience}
}

func ofNodes(s redisstore.Setting) quorum.Config {
	return quorum.Config{Prefix: s.Prefix, WatchdogTimeout: s.Renewed, NodeTimeout: s.Patience / 3, Poll: s.Poll}
}

func nodes(clients []redis.UniversalClient) (all []quorum.Client) {
	for _, c := range clients {
		all = append(all, c.(*redis.Client))
	}
	return all
}
