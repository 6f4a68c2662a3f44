// Package zkio is what the ZooKeeper mechanisms have in common: a session, what
// became of a request whose reply was lost, how nodes are named, and the lease.
//
// # Session
//
// All lockers of a process share one [Client], which has one [Session] at a time.
// ZooKeeper ends a session after a timeout without a word from the client, and
// deletes its ephemeral nodes in the same step. The client's heartbeat is thereby the
// renewal of every lock of the process.
//
//	connecting → up ⇄ down → over
//
// A session is over when the server says that it has expired, or as soon as this
// process cannot prove any more that the server has not ended it: one timeout, less
// a margin of 2 %, after the newest request was sent that has been answered. Who
// holds a lock is told at that moment, and so before anybody else can get in:
// [lock.ErrUnavailable] when there was no word from the server, [lock.ErrExpired]
// when the session expired or this process did not run. It is the rule that
// Kubernetes' leader election has for its renew deadline and that etcd's concurrency
// package leaves to its users. A session that is over stays so, even if the server
// would have it back; the next request opens a new one.
//
// The driver says neither which timeout the server granted nor when it last heard
// from it, so wire reads along. It also keeps the newest zxid in the driver's place,
// whose own bookkeeping has a data race when it connects again.
//
// In an ensemble that rule has a gap. A ping is answered by the server that the client
// is connected to, but sessions are ended by the leader, who hears of the ping from
// that server with the next tick. A server that is cut off from the leader goes on
// answering until it notices, up to syncLimit ticks later, while the leader counts
// from the last word that reached it. So SessionTimeout must be at least
// (syncLimit+1)*tickTime, as the servers are configured, or else there may be two
// holders for a moment, and only the token tells them apart. This package cannot
// check it: no server tells its clients its syncLimit. The rule gives a client the
// time to go on with another server. One that is cut off from the leader together with
// its server finds none, and may count on its locks for those syncLimit+1 ticks too
// long whatever its timeout is.
//
// # Requests
//
// The server carries out the requests of a session in the order in which they were
// sent, also over a reconnection. A connection on which a request waits and nothing
// arrives for Config.CommandTimeout is given up; the request is then repeated on the
// next one ([Do]), and whoever made it has to recognise its own doing: by an id that
// is new with every acquisition. What cannot be given back at once because the server
// is away is given back in the background, until the session is over and takes it
// along ([Session.GiveBack]).
//
// # Lease
//
// A fixed lease (opts.TTL) has no counterpart in ZooKeeper. It is enforced from the
// holder's side: when it ends, the holder is told, and then its process deletes the
// node. That of a process that is dead or paused goes with its session instead,
// which may be later.
package zkio
