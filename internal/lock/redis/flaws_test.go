package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	. "seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/simulate"
)

// A check that cannot fail proves nothing. Many behaviours are declared to break for a weak mechanism, which proves
// that their checks fail. The others are violated here, by a strong mechanism with one flaw in its scripts.
func TestFlawsAreCaught(t *testing.T) {
	for _, flaw := range []struct {
		what, mechanism string
		old, new        string // text of the scripts
		caught          []Behaviour
	}{
		{"re-entry changes the token", "fenced", "if not holder then\n  token", "if true then\n  token",
			[]Behaviour{TokenStaysOnReentry}},
		{"a waiter's token is always the same", "fenced", "math.max(newest + 1, tonumber(new_ticket()))", "1",
			[]Behaviour{TokensOutliveLock}},
		{"a token is given twice", "fenced", "us = newest + 1", "us = newest + 0", []Behaviour{TokensGrow, LinearizableFenced}},
		{"one release frees all holds", "fenced", "if last_end > time then", "if false then",
			[]Behaviour{Reenters, LinearizableReentrant, FollowsModel}},
		{"a shorter re-entry cuts the lease", "fenced", "expire_with(lock, last_lease_end(lock))", "expire_with(lock, ends)",
			[]Behaviour{ReentryKeepsLease, InnerDoesNotShorten}},
		{"a renewal does not ask whose lock it is", "fenced", "local held = redis.call('HMGET', lock, 'owner', lease_id)\n",
			"if true then return redis.call('PEXPIRE', lock, ttl) end\nlocal held = {}\n", []Behaviour{RenewsOnlyOwn}},
		{"the server grants half of the lease", "fenced", "/ 1000) + ARGV[3])", "/ 1000) + ARGV[3] / 2)",
			[]Behaviour{KeepsGivenLease, ToldBeforeOthersGetIn}},
		{"a release leaves a key", "fenced", "redis.call('DEL', lock)", "redis.call('RENAME', lock, lock .. ':left')",
			[]Behaviour{LeavesNothing}},
		{"an extension adds up", "fenced", "lease_id, now() + ttl", "lease_id, redis.call('HGET', lock, lease_id) + ttl",
			[]Behaviour{ExtendsLease}},
		{"an extension changes nothing", "fenced", "redis.call('HSET', lock, lease_id, now() + ttl)", "",
			[]Behaviour{ExtendsLease, SurvivesLongHold, RenewalIsRetried, RenewalEndsWithRelease}},
		{"the hold count stays at one", "fenced", "count = count + 1", "count = 1", []Behaviour{FollowsModel}},
		{"a free key has an owner", "fenced", "now(), '', 0", "now(), 'somebody', 0", []Behaviour{SaysWhoHolds}},
		{"a forced release always reports success", "fenced", "return held", "return 1", []Behaviour{CanBeForced}},
		{"a forced release wakes nobody", "fenced", "if held == 1 then", "if false then", []Behaviour{CanBeForced}},
		{"the last waiter is served first", "fenced", "ZPOPMIN", "ZPOPMAX",
			[]Behaviour{ServesInOrderAcrossProcesses, QueueSurvivesPause}},
		{"readers exclude each other", "rw", "wait = math.max(s.wanted - s.time, 0)", "wait = s.last_end - s.time",
			[]Behaviour{ReadersShare}},
		{"a reader's release ends all leases", "rw", "if s.readers > 0 then", "if false then",
			[]Behaviour{ReadersShare, ReaderLeasesAreApart, DowngradeWorks}},
		{"a writer joins readers", "rw", "free = s.writers == 0 and s.readers == 0", "free = s.writers == 0",
			[]Behaviour{WritersExclude, DeadReaderBlocksOneLease}},
		{"readers are admitted one by one", "rw", "redis.call('ZRANGE', readers, 0, -1)", "redis.call('ZRANGE', readers, 0, 0)",
			[]Behaviour{ReleaseAdmitsAllReaders}},
		{"readers share one lease", "rw", "local new = ", "for f in pairs(s.ends) do redis.call('HSET', lock, f, ends) end\nlocal new = ",
			[]Behaviour{ReaderLeasesAreApart, DeadReaderBlocksOneLease}},
		{"a reader waits to become the writer", "rw", "if s.reading[owner] and s.owner ~= owner then", "if false then",
			[]Behaviour{UpgradeIsRefused}},
		{"a writer cannot read", "rw", "if s.reading[owner] or s.owner == owner then", "if s.reading[owner] then",
			[]Behaviour{DowngradeWorks}},
		{"readers overtake a writer", "rw", "redis.call('HSET', lock, 'wanted', s.time + ARGV[6])", "",
			[]Behaviour{WriterGetsInAmongReaders}},
	} {
		for _, behaviour := range flaw.caught {
			t.Run(flaw.what+"/"+string(behaviour), func(t *testing.T) {
				t.Parallel()
				mustBeCaught(t, flaw.mechanism, flaw.what, behaviour, func(c redis.UniversalClient, l lock.Locker) lock.Locker {
					c.AddHook(scriptFlaw{old: flaw.old, new: flaw.new})
					return l
				})
			})
		}
	}
}

// mustBeCaught runs the check of a behaviour with a mechanism that got a flaw.
func mustBeCaught(
	t *testing.T, name, what string, behaviour Behaviour, flawed func(redis.UniversalClient, lock.Locker) lock.Locker,
) {
	t.Helper()
	m := mechanism(t, name)
	sound := m.Open
	m.Open = func(clients []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
		l, err := sound(clients, s)
		return flawed(clients[0], l), err
	}
	Virtual(t, m.Virtual, Only(m.Simulated(), behaviour).Except(Breaks(what), behaviour))
}

// scriptFlaw alters scripts on their way to the server. By its digest the server finds none of those.
type scriptFlaw struct{ old, new string }

func (scriptFlaw) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (scriptFlaw) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook]. A session sends its scripts in pipelines.
func (f scriptFlaw) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); args[0] == "eval" {
				args[1] = strings.ReplaceAll(args[1].(string), f.old, f.new)
			}
		}
		return next(ctx, cmds)
	}
}

// The same for what a process does while it has no server.
func TestFlawsDuringAnOutageAreCaught(t *testing.T) {
	mustBeCaught(t, "lua", "a release without a server succeeds", ReleasesAgainAfterOutage, hidden)
	mustBeCaught(t, "lua", "an acquisition without a server takes long", UnavailableIsQuick, hidden)
}

func hidden(_ redis.UniversalClient, l lock.Locker) lock.Locker { return hidesOutage{l} }

type hidesOutage struct{ lock.Locker }

func (h hidesOutage) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	lease, err := h.Locker.Acquire(ctx, key, opts)
	if err != nil {
		simulate.Sleep(3 * time.Second)
		return nil, err
	}
	return releasesAnyway{lease}, nil
}

type releasesAnyway struct{ lock.Lease }

func (l releasesAnyway) Release(ctx context.Context) error {
	_ = l.Lease.Release(ctx)
	return nil
}
