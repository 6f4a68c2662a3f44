package experiments

import (
	"cmp"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// buyers is how many buyers come, if the setup does not say.
func buyers(usual, least, most int) lab.Parameter {
	return lab.CountParameter("buyers", i18n.F("buyers that come"), least, most,
		func(s lab.Setup) int { return cmp.Or(s.Buyers, usual) }, func(s *lab.Setup, n int) { s.Buyers = n })
}

// stock is how many units are on sale, if the setup does not say.
func stock(usual, least, most int) lab.Parameter {
	return lab.CountParameter("stock", i18n.F("units on sale"), least, most,
		func(s lab.Setup) int { return cmp.Or(s.Stock, usual) }, func(s *lab.Setup, n int) { s.Stock = n })
}

// work is how long the work takes, if the setup does not say.
func work(about i18n.Text, usual, least, most time.Duration) lab.Parameter {
	return lab.DurationParameter("work", about, least, most,
		func(s lab.Setup) time.Duration { return cmp.Or(s.Work, usual) }, func(s *lab.Setup, d time.Duration) { s.Work = d })
}

// fixedLease is the lease that is asked for, under a lock that has one.
func fixedLease(least, most time.Duration) lab.Parameter {
	return lab.DurationParameter("lease", i18n.F("how long the lock lasts; a lease that is given is not renewed"), least, most,
		func(s lab.Setup) time.Duration { return s.Policy.TTL() },
		func(s *lab.Setup, d time.Duration) { s.Policy.LockTTLMS = d.Milliseconds() },
	).Named("0s", "the lock's own").For(func(s lab.Setup) bool { return lock.StoreOf(s.Policy.Lock) != lock.InProcess })
}

// lease is the lease that is asked for, or else the one that is renewed.
func lease(least, most time.Duration) lab.Parameter {
	return lab.DurationParameter("lease", i18n.F("how long the lock lasts, if it is not renewed"), least, most,
		func(s lab.Setup) time.Duration { return cmp.Or(s.Policy.TTL(), s.Watchdog) },
		setLease,
	).For(func(s lab.Setup) bool { return cmp.Or(s.Policy.TTL(), s.Watchdog) != 0 })
}

// setLease changes the lease that is asked for, or else the one that is renewed.
func setLease(s *lab.Setup, d time.Duration) {
	if s.Policy.LockTTLMS != 0 {
		s.Policy.LockTTLMS = d.Milliseconds()
	} else {
		s.Watchdog = d
	}
}

// pauseOf is the duration of the faults at a point: of those that strike everybody, or of those
// that strike by chance.
func pauseOf(name string, about i18n.Text, point lock.Point, byChance bool, most time.Duration) lab.Parameter {
	index := func(s lab.Setup) int {
		return slices.IndexFunc(s.Policy.Faults, func(f lock.Fault) bool { return f.Point == point && (f.Probability != 0) == byChance })
	}
	return lab.DurationParameter(name, about, time.Millisecond, most,
		func(s lab.Setup) time.Duration {
			return time.Duration(s.Policy.Faults[index(s)].PauseMS) * time.Millisecond
		},
		func(s *lab.Setup, d time.Duration) { s.Policy.Faults[index(*s)].PauseMS = d.Milliseconds() },
	).For(func(s lab.Setup) bool { return index(s) >= 0 })
}

// workInside is how long a buyer works between reading and writing.
func workInside(most time.Duration) lab.Parameter {
	return pauseOf("work", i18n.F("time between reading and writing"), lock.CriticalSection, false, most)
}

// locks are the mechanisms to choose from.
func locks(names ...string) lab.Parameter {
	return lab.ChoiceParameter("lock", i18n.F("the mechanism"), names,
		func(s lab.Setup) string { return s.Policy.Lock }, func(s *lab.Setup, name string) { s.Policy.Lock = name })
}

// sellingLocks are for what the API processes sell.
func sellingLocks() lab.Parameter {
	return locks("none", "local", "naive", "thread-id", "uuid", "lua", "reentrant", "fair", "red", "mysql-get-lock", "zk-queue")
}

// scopes are what a key of the lock stands for.
func scopes() lab.Parameter {
	return lab.ChoiceParameter("scope", i18n.F("what a key stands for: one user, or the whole voucher"), []string{string(voucher.ScopeUser), string(voucher.ScopeVoucher)},
		func(s lab.Setup) string { return string(s.Policy.Scope) }, func(s *lab.Setup, name string) { s.Policy.Scope = voucher.Scope(name) },
	).For(func(s lab.Setup) bool { return s.Policy.Lock != "none" })
}

// stockModes are the ways to take one from the stock.
func stockModes(modes ...voucher.Stock) lab.Parameter {
	var names []string
	for _, m := range modes {
		names = append(names, string(m))
	}
	return lab.ChoiceParameter("stock-mode", i18n.F("how one is taken from the stock"), names,
		func(s lab.Setup) string { return string(s.Policy.Stock) },
		func(s *lab.Setup, name string) { s.Policy.Stock = voucher.Stock(name) })
}

// waitLimit is how long a buyer waits for the lock.
func waitLimit(least, most time.Duration) lab.Parameter {
	return lab.DurationParameter("wait", i18n.F("how long a buyer waits for the lock; 0s tries once"), least, most,
		func(s lab.Setup) time.Duration { return s.Policy.Wait() },
		func(s *lab.Setup, d time.Duration) { s.Policy.LockWaitMS = d.Milliseconds() })
}

// retries is how often a buyer that is told "busy" comes again.
func retries(most int) lab.Parameter {
	return lab.CountParameter("retries", i18n.F("how often a buyer that is told \"busy\" comes again"), 0, most,
		func(s lab.Setup) int { return s.Retries }, func(s *lab.Setup, n int) { s.Retries = n })
}

// processes is how many API processes sell.
func processes() lab.Parameter {
	return lab.CountParameter("instances", i18n.F("API processes that sell"), 1, 8,
		func(s lab.Setup) int { return s.Instances }, func(s *lab.Setup, n int) { s.Instances = n })
}
