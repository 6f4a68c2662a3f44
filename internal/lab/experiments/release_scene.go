package experiments

import (
	"slices"
	"strconv"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// granted is when a user has got the lock.
func granted(user int64) func(trace.Event) bool {
	return func(e trace.Event) bool { return e.Kind == trace.Acquired && e.User == user }
}

// lateHolderAndQueue has a buyer come first whom the faults make late, and five whom
// they do not behind it.
func lateHolderAndQueue(p *lab.Play, with lab.Setup) {
	const queue = 5
	policy := with.Policy
	policy.FaultSeed = p.Seed()
	late := lateOneBefore(policy, queue)
	sale := p.Sale(policy, 2*queue, p.API(with.Instances))
	sale.Observe()
	first := sale.Start(load.Load{Buyers: 1, First: late})
	sale.Await("the late buyer has the lock", granted(late))
	rest := sale.Start(load.Load{Buyers: queue, First: late + 1})
	p.Load(first())
	p.Load(rest())
	judged := p.Judge(sale.Evidence())
	p.Measure("links of the chain", float64(judged.Anomalies[finding.WrongReleases]), "wrong releases")
}

// lateOneBefore finds the first user who meets every fault and is followed by n users
// who meet only those that everybody does.
func lateOneBefore(policy voucher.Policy, n int) int64 {
	ordinary := len(slices.DeleteFunc(slices.Clone(policy.Faults), func(f lock.Fault) bool { return f.Probability != 0 }))
	late := func(user int64) bool { return len(policy.FaultsFor(user)) > ordinary }
	user := int64(1)
	for !late(user) || slices.ContainsFunc(following(user, n), late) {
		user++
	}
	return user
}

// following are the n users after one.
func following(user int64, n int) []int64 {
	users := make([]int64, n)
	for i := range users {
		users[i] = user + 1 + int64(i)
	}
	return users
}

// lateReleaseElsewhere has a buyer of one process give its lock back late, when a buyer
// of the other process has it, and a third one come behind them.
func lateReleaseElsewhere(p *lab.Play, with lab.Setup) {
	policy := with.Policy
	policy.FaultSeed = p.Seed()
	late := lateOneBefore(policy, 2)
	second, third := late+1, late+2
	api := p.API(with.Instances)
	countAlike(p, policy, api)
	sale := p.Sale(policy, 10, api)
	sale.Observe()
	answers := []func() load.Answer{sale.StartBuy(api[0], late)}
	sale.Await("the late buyer has the lock", granted(late))
	answers = append(answers, sale.StartBuy(api[1], second))
	sale.Await("the second buyer has the lock", granted(second))
	answers = append(answers, sale.StartBuy(api[0], third))
	for _, answered := range answers {
		answered()
	}
	p.Judge(sale.Evidence())
}

// countAlike makes the processes give out the same number next, where their locks are
// numbered: by buying something else from the one that is behind. Values that are not
// numbers are alike never, and nothing is done about it.
func countAlike(p *lab.Play, policy voucher.Policy, api []*stage.Instance) {
	policy.Faults = nil
	sale := p.Sale(policy, 1_000_000, api)
	user := int64(0)
	next := func(at *stage.Instance) (number int64, ok bool) {
		user++
		buyer := user
		if a := sale.Buy(p.Context(), at, buyer); a.Code != load.Created {
			p.Fatalf("buy from %s: %s, %w", at.Name, a.Code, a.Err)
		}
		e := sale.Await("a release", func(e trace.Event) bool { return e.Kind == trace.Releasing && e.User == buyer })
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

// threeInARow has one buyer come first, and two more behind it.
func threeInARow(p *lab.Play, with lab.Setup) {
	sale := p.Sale(with.Policy, 10, p.API(with.Instances))
	sale.Observe()
	first := sale.Start(load.Load{Buyers: 1})
	sale.Await("buyer 1 has the lock", granted(1))
	rest := sale.Start(load.Load{Buyers: 2, First: 2})
	p.Load(first())
	p.Load(rest())
	p.Judge(sale.Evidence())
}

// oneAfterTheOther has a buyer buy and go, and then two others try until they have
// bought, too.
func oneAfterTheOther(p *lab.Play, with lab.Setup) {
	const comeAgain = 50 * time.Millisecond
	sale := p.Sale(with.Policy, 10, p.API(with.Instances))
	sale.Observe()
	first := sale.Rush(load.Load{Buyers: 1})
	p.Load(first)
	rest := sale.Rush(load.Load{Buyers: 2, First: 2, Retries: int(10 * time.Second / comeAgain), RetryAfter: comeAgain})
	p.Load(rest)
	p.Judge(sale.Evidence())
	if placed := rest.Placed(); len(placed) > 0 && len(first.Placed()) > 0 {
		shut := time.Duration(placed[0].Answered - first.Placed()[0].Answered)
		p.Measure("from one order to the next", float64(shut.Milliseconds()), "ms")
	}
}
