// Package actor plays experiments about a lock itself: an [Actor] is a real child
// process that uses locks and the database step by step, as it is told, and that can
// be stopped where it stands or killed.
//
// The program executes itself once more for each actor, and the child runs [Main]:
// see [MainIfChild]. It reads a [Config] from its standard input, opens the lockers
// and the database, and then serves requests, many at once. What it does is written
// to its trace file like what the service does: see package trace.
//
// # The protocol
//
// Both ends are this package, and every message is one line of JSON. A request has a
// number, the name of what to do, and with what; it is answered by one line with its
// number, as soon as it is done. "cancel" takes back the request of that number:
// what it is still doing ends, a lease that it obtained is released, and there is no
// answer to the cancel itself. The end of the input ends the child: it releases
// nothing, though what hangs on a session or a connection goes with that.
//
// # Errors
//
// What went wrong in the child comes back as an [*Error] of a closed list of kinds.
// errors.Is finds the child's sentinel in it: a [lock.ErrLost] there is a
// [lock.ErrLost] here. A child that is no more gives [ErrDead].
package actor
