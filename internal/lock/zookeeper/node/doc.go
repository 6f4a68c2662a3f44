// Package node is a lock as one ephemeral znode, zk-node in a policy: who finds it
// taken watches it, and everybody tries again when it goes.
//
// # Algorithm
//
//	create <prefix>/zk-node/<key>          ephemeral, with the record: id, owner, end
//	  and  <prefix>/zk-node/<key>!<id>     ephemeral, empty: the proof
//	                                       both or neither; "exists": somebody else's
//	watch  <prefix>/zk-node/<key>          then create again when it goes
//	delete both                            both or neither
//
// The proof makes up for something that ZooKeeper does not have. A delete can ask
// for a version, but every node begins with version 0: to read a node, compare the
// owner and delete it deletes the next holder's when the lock changes hands in
// between. The name of the proof is new with every acquisition, and it goes with the
// node when the session ends. A delete of both in one step (a multi) is the compare
// and delete that is needed.
//
// The fencing token is the zxid with which the server created the node: it grows
// with every change that the ensemble makes, for every key.
//
// To acquire is one request, to release is one. (The proof is watched besides, so
// that the holder learns when it goes.) All waiters of a process share one watch.
//
// # States
//
// Free, or held until the release, the end of a fixed lease, or the end of the
// session of the holder's process. Package zkio says what becomes of a session, of a
// reply that is lost, and of the lease.
//
// # What is not guaranteed
//
//   - That there is one holder. A process that is paused for longer than its session
//     timeout is told when it wakes (by [lock.ErrExpired]), and not while the next
//     one is at work already. What it writes in the first moment must carry the token,
//     to a store that refuses one that is older than the newest it has seen.
//   - The same in an ensemble whose servers lose each other: one that is cut off still
//     answers pings while the leader ends the session. If the session timeout is less
//     than (syncLimit+1)*tickTime, or the process is cut off together with its server,
//     there may be two holders for a moment, and only the token tells them apart (see
//     package zkio).
//   - Order: of all who wake the quickest gets in, and who just comes along may be
//     quicker still.
//   - Few requests: a release wakes everybody who waits. Each waiter asks once more for
//     the node, each process once more for the watch. With N waiters in P processes
//     that is up to N + P requests for each release, and so about N² until all had
//     their turn: the herd. That is what the queue next door is for.
//   - A fixed lease (opts.TTL) after its holder's death: the holder's process enforces
//     it. If it is dead or paused, its node goes with the session, if that is later.
//   - The end of a lease in the record, for others to read, is by the clock of the
//     holder's machine.
//   - Re-entry: an owner that acquires again waits for itself.
//   - Deletion by hand: [Locker.ForceRelease] deletes both nodes. Who deletes one of
//     them with zkCli.sh has to delete the other too; without its node alone a holder
//     is not told, and releases the next one's lock.
//
// # How to see it break
//
// Stop a process that holds the lock (kill -STOP) for longer than the session
// timeout, let another one acquire, and let the first go on: for a moment both are at
// work. TestTellsPausedProcess does it, and shows that the token of the first is the
// smaller one. In a shop it takes two instances, {"lock":"zk-node",
// "scope":"voucher","stock":"unguarded","placement":"inside-tx","faults":
// [{"point":"critical-section","pause_ms":1500}]}, an order to the first, the signal
// to it within that pause, an order to the second, and patience: both orders are
// confirmed, and the stock went down by one (with "inside-tx" the transaction does
// not end with the lock). TestReleaseWakesTheHerd counts the herd.
package node
