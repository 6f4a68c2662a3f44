package experiments

import (
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// queuePolicy sells well, under one key for all, with a wait for it.
func queuePolicy(mechanism string, wait time.Duration) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = mechanism
	p.Scope = voucher.ScopeVoucher
	p.LockWaitMS = wait.Milliseconds()
	p.Faults = []lock.Fault{pauseAt(lock.CriticalSection, serving)}
	return p
}

const (
	// serving is how long a buyer is inside where others wait for it.
	serving = 20 * time.Millisecond
	// patience is longer than any of them has to.
	patience = 20 * time.Second
)

func turnedAway() lab.Set {
	const group = "Trying once"
	return lab.Set{
		{
			ID: "try-once", Group: group, Title: "Trying once: turned away with vouchers left",
			Sources: []lab.Source{
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
				{Document: "000", Section: "Implementing a distributed lock"},
			},
			Hypothesis:  "When a buyer that finds the lock taken is turned away at once, vouchers are left at the end though more buyers came than there were vouchers.",
			Arrangement: "60 buyers come within 300 ms for 30 vouchers. The lock is on the voucher, each holder works for 20 ms, and nobody waits.",
			Why: "The lock is free only in the moments between two holders. Whoever comes while somebody is inside, and in a rush nearly everybody does, is told that the service is busy. " +
				"The sale is correct: nothing is oversold, nobody has two. But it sells only to those few who came at the right moment, and turns " +
				"the others away from stock that is still there. The listings that try once put the lock on the user, where being refused means " +
				"that the same user is asking twice; on a voucher it means nothing of the kind. Waiting, with a limit, is what the next experiment changes.",
			Seen:    "buyers are told busy, and vouchers are left",
			Cure:    "Wait for the lock with a limit, woken by its release; or let the lock guard the user and the database the stock.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.TurnedAway},
			Partner: "wait-and-be-woken",
			Setup:   lab.Setup{Policy: queuePolicy("reentrant", 0)},
			Scene:   crowdForThirty,
			K6:      []string{"LOCK=reentrant", "SCOPE=voucher", "LOCK_WAIT_MS=0", "PAUSE_MS=50", "USERS=400"},
		},
		{
			ID: "wait-and-be-woken", Group: group, Title: "Waiting with a wake-up: everything is sold",
			Sources: []lab.Source{
				{Document: "000", Section: "Retrying the lock, and the watchdog mechanism"},
				{Document: "003", Section: "Retry with a limit, renewed automatically"},
			},
			Hypothesis:  "When buyers wait for the lock and are woken by its release, every voucher is sold.",
			Arrangement: "The same 60 buyers for 30 vouchers and 20 ms of work; buyers wait for the lock for 20 s at most.",
			Why: "A buyer that finds the lock taken takes a place in a queue and sleeps; nobody asks again. The release makes the next one in the queue the holder in the same step, and tells it with a " +
				"message, so that the lock never lies free while somebody waits. The stock is sold as fast as the work allows, and the buyers behind it are told the truth: " +
				"sold out. The limit of the wait belongs to the request and has nothing to do with the lease. It is also what keeps a jam from " +
				"filling the service with requests that nobody waits for any more.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.TurnedAway, finding.Oversold},
			Partner: "try-once",
			Setup:   lab.Setup{Policy: queuePolicy("reentrant", patience)},
			Scene:   crowdForThirty,
			K6:      []string{"LOCK=reentrant", "SCOPE=voucher", "LOCK_WAIT_MS=30000", "PAUSE_MS=50", "USERS=400"},
		},
	}
}

// crowdForThirty sells 30 vouchers to 60 buyers, and counts those that were sent away
// for nothing.
func crowdForThirty(p *lab.Play, with lab.Setup) {
	const stock, buyers = 30, 60
	sale := p.Sale(with.Policy, stock, p.API(with.Instances))
	outcome := sale.Rush(load.Load{Buyers: buyers, AtOnce: buyers, Spread: 300 * time.Millisecond})
	p.Load(outcome)
	evidence := sale.Evidence()
	p.Judge(evidence)

	told, left := outcome.Answers[load.Busy], int(evidence.Audit.Stock)
	p.Found(finding.TurnedAway, min(told, left))
	p.Measure("told busy", float64(told), "buyers")
	p.Measure("left in stock", float64(left), "vouchers")
	for _, a := range outcome.All {
		if a.Code != load.Busy {
			continue
		}
		// Who comes while a holder is about to go makes no picture.
		if w, ok := judge.Picture(evidence, judge.Focus{Who: fmt.Sprintf("buyer %d", a.User)}); ok {
			w.Kind = finding.TurnedAway
			w.Summary += fmt.Sprintf(" It is told that the service is busy, and so are %d others; at the end %d vouchers are left.", told-1, left)
			p.Witness(w)
			return
		}
	}
}

func askingAgain() lab.Set {
	const group = "What waiting costs"
	return lab.Set{
		{
			ID: "polling-costs", Group: group, Title: "Asking again and again: commands without a grant",
			Sources: []lab.Source{
				{Document: "000", Section: "Core idea"},
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
			},
			Hypothesis:  "Waiters that ask again every few milliseconds send the lock's server more than ten commands for each grant.",
			Arrangement: "40 buyers come at once for 40 vouchers under one key, each works for 20 ms; a waiter asks again every 10 ms or so. The commands that Redis carried out are counted.",
			Why: "A waiter that cannot be told has to ask. Each of those behind asks every 10 ms, and all but one answer per grant is no: with n waiters, each grant costs some two or three commands for every one of them, and the " +
				"total grows with the square of the crowd. Asking less often costs time instead: the lock then lies free until somebody happens to ask. " +
				"There is no interval that is right for both. The commands also land where the holder's own release has to get through. A message at the release " +
				"makes the question needless.",
			Seen:    "tens of commands for each grant, nearly all of them in vain",
			Cure:    "A mechanism that wakes its waiters, and lets one waiter per process ask for all of them: reentrant or fair.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.ExcessCommands},
			Partner: "wake-up-costs",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: queuePolicy("lua", patience)},
			Scene:   countCommands,
		},
		{
			ID: "wake-up-costs", Group: group, Title: "Being woken: a few commands for each grant",
			Sources: []lab.Source{
				{Document: "002", Section: "Reading the source of obtaining a lock"},
				{Document: "002", Section: "Reading the source of releasing a lock"},
			},
			Hypothesis:  "With a wake-up the lock's server carries out no more than ten commands for each grant, however many wait.",
			Arrangement: "The same 40 buyers, vouchers and 20 ms of work; waiters sleep until a release wakes them. The commands that Redis carried out are counted.",
			Why: "The waiters of one process queue up inside it, and only the first of them has a place in Redis. A release passes the lock on to the next waiter of its own process, or to the " +
				"first of the other's, in one script: so a grant costs one or two round trips, whatever the length of the queue, and nobody asks in between. What is counted are the " +
				"commands inside scripts as well. A message can be lost, so the sleep is bounded by the holder's lease; this is the one question " +
				"that remains, and it is asked once per lease and not once per 10 ms.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.ExcessCommands},
			Partner: "polling-costs",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: queuePolicy("reentrant", patience)},
			Scene:   countCommands,
		},
	}
}
