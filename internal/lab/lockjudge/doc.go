// Package lockjudge finds out which behaviours of a lock break, without being told what the lock promises. The lock
// runs in processes of its own and may be written in any language: they speak the protocol of package wire. A lock in
// Go uses package serve for that.
//
// [Judge] gives each behaviour of package locktest that makes sense for any lock a trial of its own, with fresh
// processes and an empty database, and sorts what it saw by its [Grade]. A violation counts if a second trial shows it
// again: on a busy machine a limit may be missed once. With it comes the history of the trial: the last events before
// the violation.
//
// [Sell] then sells a voucher under the lock, through the code of the service, and draws what happened as the
// experiments are drawn.
//
// To die, a holder's process is killed. To lose contact, it reaches the server through a forwarder that can be cut. To
// let a lease end, its key is deleted in the store: every key that contains the lock's name counts as its own.
package lockjudge
