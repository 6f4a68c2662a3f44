// Package judge finds out what went wrong with a lock, from the recorded events and from what
// the stores hold: which anomalies there were, and how many of each kind. Package witness
// draws their proofs.
//
// The judge does not know what a mechanism promises. [Judge] takes [Evidence] and compares who
// believed to hold a key when, what the lock store held meanwhile, and what the database holds
// at the end. It counts only what is certain. All times come from one clock, but an operation
// happened at some time between its beginning and its end. So one operation counts as earlier
// than another only if it ended before the other began.
package judge
