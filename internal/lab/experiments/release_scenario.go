package experiments

import (
	"cmp"
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

// granted matches the event that a user has acquired the lock.
func granted(user int64) func(eventlog.Event) bool {
	return func(e eventlog.Event) bool { return e.Kind == eventlog.Acquired && e.User == user }
}

// lateHolderAndQueue lets a buyer come first whom the faults make late, and five behind it
// whom they do not.
func lateHolderAndQueue(t *lab.Trial, setup lab.Setup) {
	queue := cmp.Or(setup.Buyers, 1+chainQueue) - 1
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
