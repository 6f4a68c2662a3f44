// Package none is a lock that does not lock: it grants every acquisition.
//
// # Algorithm
//
// None. Acquire checks its arguments and returns a lease; Release forgets it.
//
// # States
//
// One: free.
//
// # What is not guaranteed
//
// Anything. It is the control of every experiment. What goes wrong under none and not under another mechanism is what
// that mechanism prevents; what does not go wrong under none does not need a lock.
//
// # How to see it break
//
// Sell a voucher under the policy {"lock":"none","scope":"voucher", "stock":"unguarded"}: two buyers read the same
// stock, and both write it back less one. Under {"lock":"none","unique":false} one user who clicks twice gets two
// orders. In the conformance suite, excludes-goroutines shows it.
package none
