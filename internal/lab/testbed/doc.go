// Package testbed is what experiments run on: real servers, API processes, a voucher on sale
// and its buyers, and an observer of the lock store.
//
// An [Environment] has the servers and processes that experiments share. Each is started when
// it is first needed, and all are gone after [Environment.Close], or when the program dies.
// [Environment.Run] creates a [Run] for one experiment and cleans up after it.
//
// A scenario is a linear script without error handling. As in a test, a step that cannot be
// done ends it: [Run.Fatalf] panics with a value that only the environment recovers. Call what
// can fail from the scenario's own goroutine, or from one started by [Run.Go].
//
// # Real and embedded servers
//
// If redis-server and mariadbd are installed, API processes share them. Otherwise, or if
// [Options].Embedded asks for it, there is one API process with SQLite and an in-process
// Redis. Experiments that need Redis nodes then get processes of package childredis's Redis;
// those that need MariaDB, ZooKeeper or redis-server itself are skipped.
package testbed
