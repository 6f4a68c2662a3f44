// Package failures tests what the Redis locks do when a process, a server or a clock fails.
// It uses real redis-servers, a real MariaDB and processes that are stopped. It has no
// code but its tests.
//
// Each test runs over every mechanism on one Redis server for which it makes sense. A
// mechanism either renews its lease by a watchdog (reentrant, fair, fenced, rw) or has a
// fixed lease (setnx-expire, naive, thread-id, uuid, lua) or none (setnx).
//
//	fault (name of the test)           watchdog                        fixed lease or none
//	---------------------------------  ------------------------------  ---------------------------
//	holder-stopped                     two holders; the late write is  the same, and the holder is
//	  SIGSTOP between the check and    CARRIED OUT, oversold by one;   told by its release at most
//	  the write, longer than the       with fenced it is REFUSED; the
//	  lease                            holder is told when it wakes
//	replica-promoted-unreplicated      two holders; the first one is   two holders; the first one
//	  the primary dies before the      told at its next renewal;       is not told
//	  replica has the lock             fenced: the token grows
//	replica-promoted-by-sentinel       a replicated lock is renewed    a replicated lock stays
//	  the primary dies                 on the new primary; waiters     taken and can be released
//	                                   get ErrUnavailable and try
//	                                   again
//	server-restarted-empty             the waiter gets the lock; the   two holders; the release
//	  SIGKILL, nothing on disk         holder is told at its next      returns ErrLost (lua, uuid)
//	                                   renewal                         or frees the other's lock
//	clock-moved                        forwards: two holders, the      forwards: two holders, the
//	  of the redis-server              first one is told at its next   first one is not told
//	                                   renewal
//	                                   fenced, backwards or without
//	                                   the counter: tokens grow;
//	                                   both at once: they do not
//
// This command runs one of them. It prints a table of the outcomes with the measured times:
//
//	go test ./internal/lock/failures -v -run TestFaults/holder-stopped
//
// # The late write
//
// The holder in holder-stopped is a child process that sells as the service does: package
// order on package database, with every statement under the context of the lease. Its
// database connection stops the process (kill -STOP) when it is about to send the write of
// the stock. So the context was checked immediately before, and the packet is sent after
// SIGCONT. A long pause of a virtual machine can do the same to any program, however
// careful it is. No lock prevents this. With a fencing token, the same packet finds a newer
// token in the row and is refused.
//
// TestFencedSaleWithAStoppedProcess in test/faults tests the same sale over HTTP.
//
// # Faults that other packages test
//
//	fault                                      proven by
//	-----------------------------------------  ---------------------------------------------
//	SIGKILL of a holder                        experiments of the laboratory
//	                                           (…-holder-killed); freed-after-death and
//	                                           abandoned-grant-stays in package locktest;
//	                                           zkstore.FreesLockOfDeadProcess
//	a waiter that dies, 1,000 cancelled        evicts-dead-waiters and
//	waiters                                    thousand-cancelled-waiters in package locktest
//	lost and late replies, a client without a  package locktest
//	connection, a server that hangs
//	nodes that fail one by one, a node that    packages multi and red
//	fails over
package failures
