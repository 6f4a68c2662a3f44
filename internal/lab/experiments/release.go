package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// releases are the experiments about releases that delete the wrong lock.
func releases() []comparison {
	return []comparison{
		{text: "blind-release", scenario: lateHolderAndQueue, stretches: true, cases: []setupCase{
			{id: "naive-wrong-release", setup: lateHolder("naive"), breaks: kinds{finding.WrongReleases}, situation: successorAtRelease()},
			{id: "uuid-looks-first", setup: lateHolder("uuid"), holds: kinds{finding.WrongReleases}, situation: successorAtRelease()},
		}, parameters: []lab.Parameter{
			locks("naive", "thread-id", "uuid", "lua", "reentrant", "fair"), fixedLease(50*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("how much longer the first buyer works"), lock.CriticalSection, true, 3*time.Second), buyers(1+chainQueue, 2, 16),
		}},
		{text: "shared-number", scenario: lateReleaseElsewhere, stretches: true, needs: realServers(), cases: []setupCase{
			{id: "thread-id-two-processes", setup: inProcesses(2, lateRelease("thread-id")), breaks: kinds{finding.WrongReleases}, situation: successorAtRelease()},
			{id: "uuid-two-processes", setup: inProcesses(2, lateRelease("uuid")), holds: kinds{finding.WrongReleases}, situation: successorAtRelease()},
		}, parameters: []lab.Parameter{
			fixedLease(100*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("from the first buyer's work to its release"), lock.BeforeRelease, true, 3*time.Second),
		}},
		{text: "compare-and-delete", scenario: threeInARow, stretches: true, cases: []setupCase{
			{id: "uuid-between-compare-and-delete", setup: pausedRelease("uuid"), breaks: kinds{finding.WrongReleases}, situation: successorDuringRelease()},
			{id: "lua-atomic-release", setup: pausedRelease("lua"), holds: kinds{finding.WrongReleases}},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "reentrant"), fixedLease(100*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("between comparison and deletion, where there is such a moment"), lock.BetweenCompareAndDelete, false, 3*time.Second),
		}},
		{text: "native-release", scenario: lateHolderReturns, needs: []testbed.Server{testbed.Valkey}, quiet: true, cases: []setupCase{
			{id: "naive-late-release", setup: returningLate("naive"), breaks: kinds{finding.WrongReleases}, situation: successorAtRelease()},
			{id: "native-late-release", setup: returningLate("native"), holds: kinds{finding.WrongReleases}, situation: successorAtRelease()},
		}},
		{text: "wrong-key", scenario: oneAfterTheOther, cases: []setupCase{
			{id: "uuid-wrong-key", setup: tryingOnce("uuid-wrong-key"), breaks: kinds{finding.LockedOut}},
			{id: "uuid-right-key", setup: tryingOnce("uuid"), holds: kinds{finding.LockedOut}},
		}, parameters: []lab.Parameter{fixedLease(200*time.Millisecond, 3*time.Second), workInside(100 * time.Millisecond)}},
	}
}

// leased is a setup with a fixed lease.
func leased(lease time.Duration, p voucher.Policy) lab.Setup {
	p.LockTTLMS = lease.Milliseconds()
	return lab.Setup{Policy: p}
}

// The chain: every buyer works for less than the lease, except for the late one. The late
// buyer returns in the middle of its successor's work. From then on two buyers are inside, and
// each deletes the other's lock. They are half a turn apart, so every step has more than a
// tenth of a second.
const (
	chainLease = 400 * time.Millisecond
	chainWork  = 300 * time.Millisecond
	chainLate  = 250 * time.Millisecond // on top of the work, for one buyer in lateOdds
	chainQueue = 5                      // buyers behind the late one
)

// lateOdds is the odds of being late: one buyer in 20.
const lateOdds = 20

// lateHolder makes one buyer in twenty pause beyond its lease.
func lateHolder(mechanism string) lab.Setup {
	late := pauseAt(lock.CriticalSection, chainLate)
	late.Probability = 1.0 / lateOdds
	return leased(chainLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, chainWork), late))
}

// In this scenario all work ends within its lease. Only the time between the end of the work
// and the release is long, for one buyer in lateOdds.
const (
	numberLease = 600 * time.Millisecond
	numberWork  = 350 * time.Millisecond
	numberLate  = 400 * time.Millisecond
)

func lateRelease(mechanism string) lab.Setup {
	late := pauseAt(lock.BeforeRelease, numberLate)
	late.Probability = 1.0 / lateOdds
	return leased(numberLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, numberWork), late))
}

// The gap: a buyer compares half a lease before its lock ends, and deletes in the middle of
// its successor's work.
const (
	gapLease = 600 * time.Millisecond
	gapWork  = 300 * time.Millisecond
	gap      = 450 * time.Millisecond
)

func pausedRelease(mechanism string) lab.Setup {
	return leased(gapLease, openPolicy(mechanism,
		pauseAt(lock.CriticalSection, gapWork), pauseAt(lock.BetweenCompareAndDelete, gap)))
}

const (
	wrongKeyLease = 600 * time.Millisecond
	wrongKeyWork  = 100 * time.Millisecond
)

// tryingOnce is a setup in which buyers try once.
func tryingOnce(mechanism string) lab.Setup {
	p := openPolicy(mechanism, pauseAt(lock.CriticalSection, wrongKeyWork))
	p.LockWaitMS = 0
	return leased(wrongKeyLease, p)
}

// granted matches the event that a user has acquired the lock.
func granted(user int64) func(eventlog.Event) bool {
	return func(e eventlog.Event) bool { return e.Kind == eventlog.Acquired && e.User == user }
}

// lateHolderAndQueue lets a buyer come first whom the faults make late, and five behind it
// whom they do not. Without the servers through which API processes sell, a lock client does: it is the first experiment that
// is seen, and needs no service to be built.
func lateHolderAndQueue(t *lab.Trial, setup lab.Setup) {
	queue := cmp.Or(setup.Buyers, 1+chainQueue) - 1
	if !t.RealServers() {
		lateClient(t, setup, queue)
		return
	}
	policy := setup.Policy
	makeFirstLate(&policy, t.Seed(), queue)
	sale := t.Sale(policy, int64(2*queue), t.API(setup.Instances))
	sale.Observe()
	first := sale.StartLoad(load.Load{Buyers: 1})
	sale.Await("the late buyer has the lock", granted(1))
	rest := sale.StartLoad(load.Load{Buyers: queue, First: 2})
	t.Load(first())
	t.Load(rest())
	judged := t.Judge(sale.Evidence())
	t.Measure(i18n.F("links of the chain"), float64(judged.Anomalies[finding.WrongReleases]), i18n.F("wrong releases"))
}

// lateClient is the same in one lock client.
func lateClient(t *lab.Trial, setup lab.Setup, queue int) {
	t.Require(testbed.ServersOf(setup.Policy.Lock)...)
	work, late := time.Duration(0), time.Duration(0)
	for _, f := range setup.Policy.Faults {
		if pause := time.Duration(f.PauseMS) * time.Millisecond; f.Probability != 0 {
			late = pause
		} else {
			work = pause
		}
	}
	s := newSellers(t, setup, int64(2*queue))
	process := s.start("process-1")
	if lock.StoreOf(setup.Policy.Lock) != lock.InProcess {
		s.observe()
	}
	bought := []func(){t.Go(func() { s.buy(process, firstBuyer, 1, work+late) })}
	s.await("the late buyer has the lock", acquiredBy(firstBuyer))
	for n := range queue {
		user := int64(n + 2)
		bought = append(bought, t.Go(func() { s.buy(process, fmt.Sprintf("buyer %d", user), user, work) }))
	}
	for _, wait := range bought {
		wait()
	}
	judged := t.Judge(s.fullEvidence())
	t.Measure(i18n.F("links of the chain"), float64(judged.Anomalies[finding.WrongReleases]), i18n.F("wrong releases"))
}

// makeFirstLate chooses the policy's fault seed, from one seed on, so that every fault strikes user 1, and
// only the certain ones strike the n users after it.
func makeFirstLate(policy *voucher.Policy, seed int64, n int) {
	ordinary := len(slices.DeleteFunc(slices.Clone(policy.Faults), func(f lock.Fault) bool { return f.Probability != 0 }))
	late := func(user int64) bool { return len(policy.FaultsFor(user)) > ordinary }
	policy.FaultSeed = seed
	for !late(1) || slices.ContainsFunc(usersAfter(1, n), late) {
		policy.FaultSeed++
	}
}

// usersAfter returns the n users after one.
func usersAfter(user int64, n int) []int64 {
	users := make([]int64, n)
	for i := range users {
		users[i] = user + 1 + int64(i)
	}
	return users
}

// lateReleaseElsewhere makes a buyer of one process release late, when a buyer of the other
// process has the lock, and a third one come behind them.
func lateReleaseElsewhere(t *lab.Trial, setup lab.Setup) {
	const late, second, third = 1, 2, 3
	policy := setup.Policy
	makeFirstLate(&policy, t.Seed(), 2)
	api := t.API(setup.Instances)
	alignNumbers(t, policy, api)
	sale := t.Sale(policy, 10, api)
	sale.Observe()
	answers := []func() load.Answer{sale.StartBuy(api[0], late)}
	sale.Await("the late buyer has the lock", granted(late))
	answers = append(answers, sale.StartBuy(api[1], second))
	sale.Await("the second buyer has the lock", granted(second))
	answers = append(answers, sale.StartBuy(api[0], third))
	for _, answered := range answers {
		answered()
	}
	t.Judge(sale.Evidence())
}

// alignNumbers makes the processes give out the same number next, if their locks are numbered:
// it buys something else from the process that is behind. Values that are not numbers are
// never equal, and it does nothing.
func alignNumbers(t *lab.Trial, policy voucher.Policy, api []*testbed.Instance) {
	policy.Faults = nil
	sale := t.Sale(policy, 1_000_000, api)
	user := int64(0)
	next := func(at *testbed.Instance) (number int64, ok bool) {
		user++
		buyer := user
		if a := sale.Buy(t.Context(), at, buyer); a.Code != load.Created {
			t.Fatalf("buy from %s: %s, %w", at.Name, a.Code, a.Err)
		}
		e := sale.Await("a release", func(e eventlog.Event) bool { return e.Kind == eventlog.Releasing && e.User == buyer })
		if e.Stored == nil {
			return 0, false
		}
		number, err := strconv.ParseInt(e.Stored.Owner, 10, 64)
		return number, err == nil
	}
	ahead, numbered := next(api[0])
	if !numbered {
		return
	}
	behind, _ := next(api[1])
	lagging := api[1]
	if behind > ahead {
		ahead, behind, lagging = behind, ahead, api[0]
	}
	for behind < ahead {
		behind, _ = next(lagging)
	}
}

// threeInARow lets one buyer come first, and two more behind it.
func threeInARow(t *lab.Trial, setup lab.Setup) {
	sale := t.Sale(setup.Policy, 10, t.API(setup.Instances))
	sale.Observe()
	first := sale.StartLoad(load.Load{Buyers: 1})
	sale.Await("buyer 1 has the lock", granted(1))
	rest := sale.StartLoad(load.Load{Buyers: 2, First: 2})
	t.Load(first())
	t.Load(rest())
	t.Judge(sale.Evidence())
}

// oneAfterTheOther lets a buyer buy and release; then two others try until they have bought,
// too.
func oneAfterTheOther(t *lab.Trial, setup lab.Setup) {
	const comeAgain = 50 * time.Millisecond
	sale := t.Sale(setup.Policy, 10, t.API(setup.Instances))
	sale.Observe()
	first := sale.SendLoad(load.Load{Buyers: 1})
	t.Load(first)
	rest := sale.SendLoad(load.Load{Buyers: 2, First: 2, Retries: int(10 * time.Second / comeAgain), RetryAfter: comeAgain})
	t.Load(rest)
	t.Judge(sale.Evidence())
	if placed := rest.Placed(); len(placed) > 0 && len(first.Placed()) > 0 {
		shut := time.Duration(placed[0].Answered - first.Placed()[0].Answered)
		t.Measure(i18n.F("from one order to the next"), float64(shut.Milliseconds()), i18n.F("ms"))
	}
}
