// Package judge tells what went wrong with a lock, from what was recorded and from
// what the stores hold: which anomalies there were, how many of each kind, and the
// smallest proof of every kind.
//
// Nothing here knows what a mechanism promises. [Judge] takes [Evidence] and looks
// at who believed to hold a key when, what the lock's store held meanwhile, and
// what the database ended up with. It counts only what is certain: all times come
// from one clock, but a thing happened somewhere between its beginning and its end,
// so an order of two things is taken as given only where the end of the first lies
// before the beginning of the second.
package judge
