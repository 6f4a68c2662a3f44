// Package session is what the locks reentrant, fair, rw and fenced share: it connects one process to one Redis for one
// mechanism. It batches commands, listens on one pub/sub connection, queues the waiters of the process, renews leases,
// and cleans up after commands whose reply was lost. A mechanism adds its [Protocol]: the Lua scripts that decide who
// gets the lock.
//
// # Words
//
//	lease          the right to the lock for a time; what Acquire returns
//	lease id       "lease:<unique>", the identity of a lease and of its request in Redis
//	TTL            the length of a lease
//	attempt        one try to acquire the lock
//	queue          the waiters of a lock: in this process (waitqueues.go), and in Redis
//	queue entry    a waiter in the queue in Redis; by default one for each process
//	ticket         the position of an entry, by the Redis server's clock
//	handover        a release makes a waiter the holder: a local handover, one of the same
//	               process, otherwise one of another process, which learns it by message
//
// # Conventions of the scripts
//
// KEYS[1] is the lock, KEYS[2] its queue, and the protocol's ExtraKeys follow. All have the
// lock's key as their hash tag, so every script runs on a cluster. The functions of common.lua, and of the protocol's
// Library, come before each source, and before those a part without functions for the case in which nobody waits
// (*_free.lua). Times are in milliseconds; as with PTTL, -1 stands for no end.
//
//	acquire  ARGV owner, lease id, TTL, queue entry or '', ticket or 0, QueueEntryTTL,
//	         1 if this attempt is a repetition
//	release  ARGV owner, lease id, next waiter's owner or '', its lease id, its TTL, 1 to
//	         hand over although other processes wait, QueueEntryTTL, the next waiter's
//	         queue entry or ''
//	renew    ARGV owner, lease id, TTL
//	leave    ARGV queue entry, QueueEntryTTL
//	inspect
//	break    ARGV QueueEntryTTL
//
//	acquire  token                  granted; 0 where the protocol has no tokens
//	         {holder, ttl, ticket}  refused. From a protocol that sends "granted", a 1
//	                                follows where the entry was queued before and is gone
//	         error INVALID text     the request makes no sense
//	release  1                      released
//	         2                      released; the owner has other leases
//	         {token}                released and handed over
//	         {token, 1}             the next waiter is the holder already
//	         0                      not found
//	        -1                      another owner holds the lock
//	renew    1                      renewed
//	         0                      nobody holds the lock
//	        -1                      another owner holds it
//	        -2                      the owner holds it with other leases
//	leave    anything
//	inspect  {owner, count, ttl, token, 1 if shared, length of the queue or its owners}
//	break    1                      the lock was held
//	         0                      it was free
//
// Acquire, release and renew must be idempotent: with the same owner and lease id a second time they change nothing. So
// a command whose reply was lost can be repeated.
//
// # Who sends
//
// A command of a goroutine that is alone is sent by that goroutine: it writes, reads the reply and is done. While a
// command is under way, further ones are queued, and workers send them in batches. So a command passes through other
// goroutines only where it shares a round trip.
//
// A goroutine that waits for a reply cannot leave with its context. So it sends by itself only as long as the server
// answers within 25 ms, where its context has more than 250 ms left, and where the client ends commands at their
// deadline: a *redis.Client with ContextTimeoutEnabled. After 250 ms it cuts the command, and the queue takes over:
// callers can leave at any time again. Such a repetition comes in addition to the one below.
//
// # Unknown outcomes
//
// By default go-redis sends a command up to four times without telling the caller. Here every command is sent once (its
// NoRetry, whatever the client's MaxRetries), and the session repeats one whose reply is missing. So it knows that the
// first may have been carried out.
//
//   - An acquire that is repeated finds its own lease and counts it once.
//   - Where an acquire fails, or its caller gives up, while the reply to an attempt is
//     missing, the session releases its lease in the background. It does the same after the
//     release of a lease that took more than one attempt. It does not trust the reply "not
//     found": it repeats the release until the server has answered for
//     [lock.ReleaseTimeout]. A lock stays for the length of its lease only if the network
//     delays a command for longer than that, or if the server hangs for over a minute.
//   - A release that is repeated and finds nothing has succeeded, as long as the lease
//     could not have expired. Nothing in Redis has to record it.
//
// # Waiting
//
// The waiters of one process queue in order of arrival, and only the head talks to Redis. It subscribes to a channel,
// adds an entry to the lock's queue, and sleeps until it is notified, until the holder's lease ends, or until a third
// of Config.QueueEntryTTL has passed, whichever is first. So a lost message costs no more than that.
//
//	message on a process's channel     who acts
//	(empty)                            the head of the queue asks
//	*                                  all waiters ask
//	<lease id>                         the waiter with this lease id asks
//	granted:<token> <lease id>         the waiter with this lease id is the holder
//
// With the last message the release itself has made the waiter the holder. One release wakes one process, nobody
// overtakes the waiter, and it need not ask again. It holds the lock for half of Config.QueueEntryTTL, which it counts
// from its last refused attempt; then its watchdog renews the lease to its whole length. A waiter that died holds up
// the others for no longer than that.
//
// The message may be so late that the grant has ended and the waiter was refused since. Such a refusal, or one before
// it whose reply was lost, found that the waiter's entry had been removed. So after a refusal that did, and after an
// attempt without a reply, the waiter asks whenever it is notified. Otherwise its last refused attempt came before the
// grant.
//
// Where the next waiter is in the holder's own process, the release makes it the holder and the reply says so: one
// round trip per grant, and no message. While other processes wait, this happens at most Config.MaxLocalHandovers times
// in a row.
//
// A wait does not outlast an outage: a head whose attempt fails twice without a reply returns [lock.ErrUnavailable],
// and its caller has to try again.
//
// All waiters of a process share one pub/sub connection. It subscribes to a lock's channel
// for the first waiter and unsubscribes a tenth of a second after the last; a waiter that
// comes back within that time saves the subscription, and its first attempt where the last
// waiter had to wait too. The message is
// a plain PUBLISH, which a cluster sends to every node, so one connection receives all
// channels. Sharded pub/sub (Redis 7) would spare the other nodes the message but needs a
// connection to each primary. Messages are sent only for locks that somebody waits for, so
// the simpler way is used.
//
// # Telling the holder
//
// A lease is counted from before the attempt that was granted or renewed, less a margin (see package watchdog). At its
// end, and so before Redis lets anybody else in, its context ends:
//
//	lock.ErrExpired                       it was a fixed lease, or this process was stopped
//	lock.ErrUnavailable, the last error   it could not be renewed
//	lock.ErrExpired or lock.ErrLost       a renewal found the key gone, or another owner's;
//	                                      all leases of the owner on the lock end then
//
// # Where to start reading
//
// protocol.go, acquire.go, lease.go, waitqueues.go, wait.go and handover.go, cleanup.go; then direct.go, batcher.go,
// listener.go and connection.go for the connection to Redis.
package session
