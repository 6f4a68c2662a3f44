// Package zkio has what the ZooKeeper mechanisms have in common: a session, requests whose reply may be lost, the names
// and contents of nodes, and the lease.
//
// # Session
//
// All lockers of a process share one [Client], which has one [Session] at a time. ZooKeeper ends a session when the
// client has been silent for the session timeout, and deletes the session's ephemeral nodes in the same step. So the
// client's heartbeat renews every lock of the process.
//
//	connecting → up ⇄ down → over
//
// A session is over in two cases: the server reports that it has expired, or this process can no longer prove that the
// server has not ended it. The proof ends one timeout, less a margin of 2 %, after the newest answered request was
// sent. Every holder is told at that moment, and so before another owner can get its lock:
//
//	lock.ErrUnavailable   there was no answer from the server
//	lock.ErrExpired       the session expired, or this process did not run
//
// Kubernetes' leader election has this rule for its renew deadline; etcd's concurrency package leaves it to its users.
// A session that is over stays over, even if the server would accept it again. The next request opens a new one.
//
// The driver tells neither the timeout that the server granted nor the time of the last answer. So observedConn reads
// the frames of each connection. It also stores the newest zxid instead of the driver, whose own bookkeeping has a data
// race on reconnection.
//
// In an ensemble this rule has a gap. The server to which the client is connected answers a ping, but the leader ends
// sessions, and it hears of the ping with that server's next tick. A server that is cut off from the leader keeps
// answering until it notices, up to syncLimit ticks later, while the leader counts from the last message that reached
// it. Therefore SessionTimeout must be at least (syncLimit+1)*tickTime as configured on the servers. Otherwise there
// may be two holders for a moment, and only the token distinguishes them. This package cannot check it, because servers
// do not report their syncLimit. The rule leaves the client time to continue on another server. A client that is cut
// off from the leader together with its server finds none: whatever its timeout, it may rely on its locks for up to
// syncLimit+1 ticks too long.
//
// # Requests
//
// The server carries out the requests of a session in the order in which they were sent, also across a reconnection. If
// a request is waiting and nothing arrives on the connection for Config.CommandTimeout, the connection is closed. [Do]
// repeats the request on the next connection. The caller must then recognise its own earlier request, by an id that is
// new for every acquisition. [Session.DeleteEventually] deletes nodes in the background while the server is away, until
// the session ends and its nodes with it.
//
// # Lease
//
// ZooKeeper has no fixed leases (opts.TTL). The holder's process enforces them: when the lease ends, it tells the
// holder and then deletes the node. If the process is dead or paused, the node is deleted at the end of its session,
// which may be later.
package zkio
