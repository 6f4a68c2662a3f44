// Package none is the lock that is none: it grants everything to everybody.
//
// # Algorithm
//
// None. Acquire checks its arguments and returns a lease; Release forgets it.
//
// # States
//
// There is one: free.
//
// # What is not guaranteed
//
// Anything. It is the control of every experiment: what goes wrong under none
// and not under another mechanism is what that mechanism prevents; what does not
// go wrong under none was never a matter of locking.
//
// # How to see it break
//
// Sell a voucher under the policy {"lock":"none","scope":"voucher",
// "stock":"unguarded"}: two buyers read the same stock and both write it back
// less one. Under {"lock":"none","unique":false} one user who clicks twice gets
// two orders. In the conformance suite it is excludes-goroutines that shows it.
package none
