// Package node implements the lock zk-node as one ephemeral znode. A caller that finds it taken watches it, and all
// waiters try again when it is deleted.
//
// # Algorithm
//
//	create <prefix>/zk-node/<key>          ephemeral, with the record: id, owner, end
//	  and  <prefix>/zk-node/<key>!<id>     ephemeral, empty: the marker
//	                                       both or neither; "exists": taken
//	watch  <prefix>/zk-node/<key>          create again when it is deleted
//	delete both                            both or neither
//
// ZooKeeper has no compare-and-delete by content, and the marker replaces it. A delete can require a version, but every
// node begins with version 0. To read a node, compare the owner and then delete it could delete the node of the next
// holder. The name of the marker is new for every acquisition, and the marker is deleted together with the node when
// the session ends. A multi request that deletes both is the compare-and-delete.
//
// The fencing token is the zxid with which the server created the node. It grows with every change in the ensemble, for
// all keys.
//
// An acquisition takes one request, a release one. (The holder also watches the marker, so that it is told when the
// marker is deleted.) All waiters of a process share one watch.
//
// # States
//
// A lock is free, or held until the release, the end of a fixed lease, or the end of the session of the holder's
// process. Package zkio describes sessions, lost replies and leases.
//
// # What is not guaranteed
//
//   - That there is only one holder. A process that is paused for longer than its
//     session timeout is told when it wakes ([lock.ErrExpired]); the next holder may be
//     working by then. Therefore every write must carry the token, and the store must
//     refuse a token older than the newest one it has seen.
//   - The same in an ensemble whose servers lose contact: a server that is cut off still
//     answers pings while the leader ends the session. If the session timeout is less
//     than (syncLimit+1)*tickTime, or the process is cut off together with its server,
//     there may be two holders for a moment, and only the token distinguishes them (see
//     package zkio).
//   - Order: the quickest of all waiters gets the lock, or a new caller that is quicker.
//   - Few requests: a release wakes all waiters. Each waiter tries to create the node
//     again, and each process sets the watch again. With N waiters in P processes these
//     are up to N + P requests for each release, and about N² until all have had the
//     lock: a thundering herd. Package queue avoids it.
//   - A fixed lease (opts.TTL) after its holder's death: the holder's process enforces
//     it. If the process is dead or paused, the node is deleted at the end of the
//     session, if that is later.
//   - The end of the lease in the record is by the clock of the holder's machine. It is
//     information only.
//   - Re-entry: an owner that acquires again waits for itself.
//   - Manual deletion: [Locker.ForceRelease] deletes both nodes. Anybody who deletes one
//     of them with zkCli.sh must delete the other one too. If only the node is deleted,
//     its holder is not told, and its release deletes the next holder's node.
//
// # How to see it break
//
// Stop a process that holds the lock (kill -STOP) for longer than the session timeout, let another process acquire, and
// continue the first one. For a moment both are working. TestTellsPausedProcess does this and shows that the first one
// has the smaller token.
//
// With the service, start two instances with the policy {"lock":"zk-node",
// "scope":"voucher","stock":"unguarded","placement":"inside-tx","faults":
// [{"point":"critical-section","pause_ms":1500}]}. Send an order to the first instance, stop it during the pause, send
// an order to the second one, wait, and continue the first. Both orders are confirmed, but the stock has decreased by
// one only (with "inside-tx" the transaction does not end with the lock).
//
// TestReleaseWakesTheHerd counts the requests of the herd.
package node
