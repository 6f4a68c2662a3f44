// Package lockclient is for experiments about a lock itself: a [Client] is a real child
// process that uses locks and the database step by step, as it is told. It can be paused or
// killed.
//
// The program executes itself once more for each client, and the child runs [Main]: see
// [MainIfChild]. The child reads a [Config] from its standard input, opens the lockers and the
// database, and then serves requests concurrently. It records its events in a file, as the
// service does: see package eventlog.
//
// # The protocol
//
// Both ends are this package, and every message is one line of JSON. A request has a number, a
// name and arguments. Its reply is one line with the same number, sent as soon as the request
// is done. "cancel" cancels the request of that number: its work ends, a lease that it has
// acquired is released, and there is no reply to the cancel itself. The end of the input ends
// the child. It releases nothing, but locks that depend on a session or a connection end with
// that.
//
// # Errors
//
// An error in the child is returned as an [*Error] with a kind from a closed list. errors.Is
// finds the child's sentinel in it: a [lock.ErrLost] there is a [lock.ErrLost] here. If the
// child has ended, the error is [ErrDead].
package lockclient
