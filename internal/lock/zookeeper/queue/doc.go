// Package queue implements the lock zk-queue as a queue of ephemeral sequential znodes. The first node belongs to the
// holder. Every waiter watches only the node before its own.
//
// # Algorithm
//
//	create <prefix>/zk-queue/<key>          the parent, if it does not exist
//	create <prefix>/zk-queue/<key>/<id>-    ephemeral; the server appends a growing number
//	  and  write to the parent              both or neither; raises the parent's version
//	list   the queue                        first: acquired
//	watch  the node before the own          when it is deleted: list again
//	delete the own node                     then the parent, unless it has other children
//
// This is the recipe of ZooKeeper's documentation with the id in the name ("protected create"). If the reply to a
// create is lost, the client does not know the number in the name and finds its node by the id. The id also makes the
// delete safe, because no other node ever has the same name.
//
// When the node before is deleted, the lock is not necessarily free: that node's owner may have given up or died in the
// middle of the queue. So the waiter lists the queue each time.
//
// The recipe has no try without waiting. A try could enter the queue and leave it again if its node is not the first.
// But for that moment its node would be in the way: another try would fail although nobody holds the lock, and a late
// release would mistake the node for the next holder ([lock.ErrLost] instead of [lock.ErrExpired]). Here a try requires
// version 0 for its write to the parent. Every entry writes to the parent, so version 0 means that nobody has entered
// yet. Either the try's node is the first from its creation on, or the try creates no node. An empty parent that has
// been used is deleted and created again.
//
// Therefore the first node always belongs to a holder, or to a waiter whose turn it is.
//
// The token is the zxid with which the server created the node. The queue has the order of creation, so every holder
// has a greater token than the holder before it.
//
// The parent is a container node. If no client could delete it, because the last one died, the server deletes it within
// about a minute.
//
//	operation   requests
//	try         2; 3 if the lock is taken
//	wait        3; 1 more if there is no parent
//	wake-up     1; 1 more to record the end of a fixed lease
//	release     2, however many waiters there are
//
// (The own node is watched too, so that its owner is told when it is deleted.) Waiters of one process that list the
// queue at the same moment share one request.
//
// # States
//
// A node in the queue is waiting, then first (which means holding), then deleted. It is deleted by the release, at the
// end of a fixed lease, when its owner gives up, or at the end of the session. Package zkio describes sessions, lost
// replies and leases. A waiter whose session ended, or whose node somebody deleted, enters again at the end of the
// queue.
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
//   - Speed: a waiter that is paused or cut off when its turn comes delays all others
//     until its session ends. That is the price of the order.
//   - That the reported holder is working: if the first in the queue is a waiter that has
//     died or is about to give up, a try fails because of it, and a late release
//     returns [lock.ErrLost].
//   - Fresh lists: a list comes from the server to which the process is connected. In an
//     ensemble that server may be behind, so a try may fail although the lock was
//     released, or a waiter may wake later. A grant is never wrong because of this: all
//     nodes before a node were created before it and are in every list that contains it.
//   - A fixed lease (opts.TTL) after its holder's death: the holder's process enforces
//     it. If the process is dead or paused, the node is deleted at the end of the
//     session, if that is later.
//   - The end of the lease in the record is by the clock of the holder's machine. It is
//     information only.
//   - Re-entry: an owner that acquires again waits behind itself.
//
// # How to see it break
//
// Stop a process that holds the lock (kill -STOP) for longer than the session timeout, let another process acquire, and
// continue the first one. For a moment both are working. TestTellsPausedProcess does this and shows that the first one
// has the smaller token.
//
// With the service, start two instances with the policy {"lock":"zk-queue",
// "scope":"voucher","stock":"unguarded","placement":"inside-tx","faults":
// [{"point":"critical-section","pause_ms":1500}]}. Send an order to the first instance, stop it during the pause, send
// an order to the second one, wait, and continue the first. Both orders are confirmed, but the stock has decreased by
// one only. With "stock":"fenced" instead of "unguarded" the database refuses the first one's write.
//
// TestReleaseWakesOne counts the processes that a release wakes: one, where zk-node wakes all.
package queue
