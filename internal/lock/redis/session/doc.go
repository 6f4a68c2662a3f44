// Package session is what the strong Redis locks share: one process's dealings with
// one Redis on behalf of one mechanism. It sends commands together, listens on one
// pub/sub connection, lets waiters stand in line, renews leases, and finds out what
// became of commands that were not answered. A mechanism adds its [Protocol]: a few
// Lua scripts that decide who gets the lock.
//
// # Conventions of the scripts
//
// KEYS[1] is the lock, KEYS[2] its queue, and the protocol's Parts follow; all have
// the lock's key as their hash tag, so that every script runs on a cluster. The
// functions of common.lua, and of the protocol's Library, go before each source.
//
//	acquire  ARGV owner, lease, ttl, place or '', ticket or 0, how long a place lasts,
//	         1 if this attempt is a repetition
//	         → token (granted; 0 where there are none), {holder, ttl, ticket}
//	         (refused), or the error INVALID with a sentence
//	release  ARGV owner, lease, successor's owner or '', its lease, its ttl, 1 to
//	         hand over although other processes wait, how long a place lasts, the
//	         successor's place or ''
//	         → 1 given back, 2 given back and the owner has other leases,
//	         {token} given back and handed over, {token, 1} the successor has it
//	         already, 0 not there, -1 another's
//	renew    ARGV owner, lease, ttl → 1, 0 gone, -1 another's, -2 not by this lease
//	leave    ARGV place, how long a place lasts → anything
//	inspect  → {owner, count, ttl, token, 1 if shared, length of the queue or owners}
//	break    ARGV how long a place lasts → 1 it was held, 0 it was not
//
// Durations are in milliseconds, PTTL's -1 stands for no end. Acquire, release and
// renew must be idempotent: the same owner and lease again changes nothing. That is
// what lets a command whose reply was lost be repeated.
//
// # Outcomes that are not known
//
// go-redis by default sends a command up to four times and does not say so. Here
// every command goes out once (its NoRetry, so that the client's MaxRetries need not
// be touched), and it is the session that repeats one whose reply is missing: it
// then knows that the first may have been carried out.
//
//   - An acquire that is repeated finds its own lease and counts it once.
//   - An acquire that fails, or that its caller gives up, while the reply to one of
//     its attempts is missing is followed by releases of its lease on time of their
//     own; so is the release of a lease that took more than one attempt. "Not there"
//     is not believed then: the release is repeated until the server has answered
//     for [lock.ReleaseTimeout]. A command that the network delays longer than that,
//     or a server that hangs for more than a minute, leaves a lock for the length of
//     its lease.
//   - A release that is repeated and finds nothing has succeeded, as long as the
//     lease could not have run out by itself. No trace of it is kept in Redis.
//
// # Waiting
//
// Waiters of one process stand in line, in order of arrival, and only the head talks
// to Redis: it subscribes, takes a place in the lock's queue, and sleeps until it is
// told, until the holder's lease ends, or until a third of Config.PlaceTimeout has
// passed, whichever is first. So a message that is missed costs no more than that.
//
// What is said on a process's channel decides what happens: nothing has the head of
// the line ask, "*" all waiters, a lease that waiter; and "granted:<token> <lease>" says
// that the lock was passed on: the release itself made that lease the holder, so that
// one release wakes one process, nobody overtakes it, and it need not ask again. The
// lock is passed on for half of Config.PlaceTimeout, which the holder counts from its
// last attempt that was refused, and so from before the grant; its watchdog then makes
// a whole lease of it. A waiter that died is in the way for no longer than that.
//
// Where the next in line is of the holder's own process, the release makes that one
// the holder and its reply says so: one round trip a grant, and no message. While other
// processes wait, that happens at most Config.Passes times in a row.
//
// A wait does not outlast an outage: the head of the line that gets no answer twice
// ends with lock.ErrUnavailable, and its caller has to ask again.
//
// All waiters of a process share one pub/sub connection, which subscribes to a
// channel for the first waiter of a lock and unsubscribes a tenth of a second after
// the last; who comes back within that time is spared the first attempt and the
// subscription. The message is a plain PUBLISH, which a cluster carries to every node, so that one
// connection hears all keys. Sharded pub/sub (Redis 7) would spare the other nodes
// the message, but needs a connection to each primary; with messages for locks that
// are awaited only, the simpler way won.
//
// # Being told
//
// A lease counts from before the attempt that was granted or renewed, less a margin
// (see package watchdog). At that moment, and so before Redis lets anybody else in,
// its context ends: with [lock.ErrExpired] if it was a fixed lease or this process
// did not run, with [lock.ErrUnavailable] and the last error if it could not be
// renewed. A key that is gone or somebody else's is found at the next renewal
// ([lock.ErrExpired], [lock.ErrLost]), and then all leases of that owner are over.
//
// # In which order to read
//
// protocol.go, acquire.go, lease.go, room.go, wait.go and successor.go, settle.go; then
// pipe.go, listener.go and connection.go for how it reaches Redis.
package session
