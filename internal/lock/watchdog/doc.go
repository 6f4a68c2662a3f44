// Package watchdog renews leases while their holders live and tells every holder
// whose lease is over. Mechanisms whose store can be asked for more time share it.
//
// One goroutine watches over every lease of a [Watchdog]: it renews those that
// asked for no fixed lease, all that are due at about the same time in one batch,
// and it tells the holder of a lease that is about to end. It counts from before
// the attempt that was granted or renewed, so it is never later than the store;
// and since it looks at the deadline first, a process that was stopped and goes on
// learns what it lost before anything is renewed.
//
// The watch is tied to the lease: a release ends it first, and an answer that comes
// after that changes nothing. A renewal that fails is tried again while time is
// left, after a pause, since what failed quickly would fail as quickly again. This
// is the arrangement of leader election in Kubernetes: lease > deadline of the
// holder > interval of the renewals > interval of the retries.
package watchdog
