// Package queue is a lock as a queue of ephemeral sequential znodes, zk-queue in a
// policy: the first is the holder's, and everybody else watches only the one before.
//
// # Algorithm
//
//	create <prefix>/zk-queue/<key>          the parent, where there is none
//	create <prefix>/zk-queue/<key>/<id>-    ephemeral; the server adds a number that grows
//	  and  write to the parent              both or neither; raises the parent's version
//	list   the queue                        first: acquired
//	watch  the node before the own          when it goes: list again
//	delete the own node                     then the parent, unless somebody is in it
//
// It is the recipe of ZooKeeper's documentation, with the id in the name ("protected")
// since a create whose reply is lost leaves its maker without the number: it finds its
// node by the id. The id makes the delete safe too: no other node ever has the name.
//
// That the node before has gone does not mean that the lock is free. Its owner may
// have given up or died in the middle of the queue. So the list decides, each time.
//
// A try without a wait limit is not of the recipe. There it enters, and leaves again
// if it is not the first, and for that moment it is in the way: another try fails
// because of it although nobody has the lock, and a release that came too late takes
// it for the next holder ([lock.ErrLost] in place of [lock.ErrExpired]). Here a try
// asks that the write to the parent find version 0. As everybody who enters writes
// to it, that is a queue which nobody has entered: the try is the first from the
// moment at which its node exists, or it has none. A parent that was used and is
// empty is deleted and made anew.
//
// So the first node is always that of a holder, or of a waiter whose turn it is.
//
// The token is the zxid with which the server created the node. The queue is in the
// order of creation, so that every holder has a greater one than the holder before.
//
// The parent is a container: where nobody could delete it, because the last one died,
// the server does so within a minute or so.
//
// To try is two requests, or three when the lock is taken; to wait is three, and one
// more where there is no parent; to be woken is one (and another to write down when
// a fixed lease ends); to release is two, however many wait. (The own node is watched
// besides, so that its owner learns when it goes.) Waiters of one process who come at
// the same moment share a list.
//
// # States
//
// A place in the queue is waiting, then first, which is to hold, then gone. It goes by
// the release, by the end of a fixed lease, by giving up, and with the session.
// Package zkio says what becomes of a session, of a reply that is lost, and of the
// lease. A waiter whose session ended, or whose node somebody deleted, stands in line
// again, at the end.
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
//   - Speed: a waiter that is paused or cut off when its turn comes holds up all others
//     until its session ends. That is the price of the order.
//   - That somebody works who is said to hold the lock: when the first in the queue is
//     a waiter that has died or is about to give up, then a try fails because of it,
//     and a release that came too late is told [lock.ErrLost].
//   - News without delay: a list comes from the server that the process is connected
//     to. In an ensemble that one may be behind, so that a try fails though the lock
//     was released, or a waiter wakes later. A grant never rests on it: what stands
//     before a node was created before it, and is in every list that has the node.
//   - A fixed lease (opts.TTL) after its holder's death: the holder's process enforces
//     it. If it is dead or paused, its node goes with the session, if that is later.
//   - The end of a lease in the record, for others to read, is by the clock of the
//     holder's machine.
//   - Re-entry: an owner that acquires again stands in line behind itself.
//
// # How to see it break
//
// Stop a process that holds the lock (kill -STOP) for longer than the session
// timeout, let another one acquire, and let the first go on: for a moment both are at
// work. TestTellsPausedProcess does it, and shows that the token of the first is the
// smaller one. In a shop it takes two instances, {"lock":"zk-queue",
// "scope":"voucher","stock":"unguarded","placement":"inside-tx","faults":
// [{"point":"critical-section","pause_ms":1500}]}, an order to the first, the signal
// to it within that pause, an order to the second, and patience: both orders are
// confirmed, and the stock went down by one. With "stock":"fenced" in place of
// "unguarded" the database refuses what the first one writes. TestReleaseWakesOne
// counts who wakes, which is one, where it is everybody with zk-node.
package queue
