// Package watchdog renews leases while their holders live, and tells each holder when its lease ends. It is shared by
// the mechanisms whose store can prolong a lease.
//
// One goroutine watches all leases of a [Watchdog]. It renews those without a fixed length: all that are due at about
// the same time in one batch. And it tells the holder of a lease that is about to end. It counts from before the
// attempt that was granted or renewed, so it is never later than the store. It checks the end of a lease before it
// renews: a process that was stopped learns first what it lost.
//
// A release ends the watch before anything else, and a reply to a renewal that arrives after it changes nothing. A
// failed renewal is repeated after a pause while time is left, because a renewal that failed quickly would fail as
// quickly again.
//
// Kubernetes' leader election has the same order: lease > deadline of the holder > interval of the renewals > interval
// of the retries.
package watchdog
