// Package failures is what each Redis lock does when something dies, seen on real
// redis-servers and a real MariaDB, with processes that are killed and stopped. It
// has no code but its tests.
//
//	fault (the test of that name)     strong: reentrant, fair, fenced, rw        others
//	--------------------------------  -----------------------------------------  -----------------------------
//	holder-killed                     free at the end of its lease, within one   lua: after its fixed lease
//	  SIGKILL of the holder           watchdog timeout and not before            setnx: never, no TTL
//	waiters-killed                    reentrant: the next gets in at once
//	  SIGKILL of the queue's first    fair: when a place has ended
//	holder-stopped                    reentrant: two holders, the late write     lua: the same, and its holder is
//	  SIGSTOP between check and       LANDS, oversold by one; fenced: the late   told by the release only
//	  write, longer than the lease    write is REFUSED; told as soon as it wakes
//	replica-promoted-unreplicated     two holders; the first is told at its      red: one holder, who goes on
//	  the primary dies before it      next renewal. fenced: the second token     multi: one holder, who is told
//	  replicated the lock             is greater, the first's write refused      that a node lost the key
//	replica-promoted-by-sentinel      a replicated lock stays its holder's and
//	  the primary dies                is renewed on; waiters are told
//	                                  ErrUnavailable and have to ask again
//	server-restarted-empty            the waiter gets in; the holder is told     lua: two holders, told by the
//	  SIGKILL, nothing on disk        ErrExpired, or ErrLost where somebody      release; setnx: its release frees
//	                                  has it, at its next renewal                the next holder's lock
//	clock-moved                       forwards: two holders, the first is told
//	  of the redis-server             at its next renewal; backwards, or the
//	                                  counter deleted: fenced's tokens grow;
//	                                  both at once: they do not
//	waiters-cancelled                 no key, no channel, no goroutine is left;
//	  1,000 of them                   one pub/sub connection while they wait
//
// The command that shows one of them, with what was seen and how long it took in a
// table at its end:
//
//	go test ./internal/lock/failures -v -run TestFaults/holder-stopped
//
// All of them, without -run, take about 20 seconds.
//
// # How the late write is made
//
// The holder in holder-stopped is a child process that sells as the service does:
// package order on package database, every statement under the lease's context. Its
// connection to the database stops the process (kill -STOP) when it is handed the
// write of the stock. So the context was asked for the last time just before, and the
// packet leaves right after SIGCONT: what a long pause of a virtual machine can do to
// any program, however careful. No lock prevents it. The same packet with a fencing
// token finds a newer one in the row.
//
// The sale over HTTP by two processes, one of which is stopped with the lock in its
// hands, is TestFencedSaleWithAStoppedProcess in cmd/api.
//
// # What is not shown here
//
// Lost and late replies, partitions of one client and servers that hang are in the
// conformance suite (package locktest), which every mechanism passes by its own
// folder's test; nodes that fail one by one are in those of red and multi.
package failures
