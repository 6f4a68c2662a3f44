// Package testkit gives tests and experiments real servers: redis-server (single, cluster, sentinel),
// MariaDB (single, Galera cluster), MySQL and ZooKeeper.
// Every server is a child process on a free port of 127.0.0.1, with its own process group and its own
// temporary folder. This package never touches a server that it did not start. It leaves nothing
// behind, however the test binary ends:
//   - A test stops what it started when it ends (Cleanup).
//   - [Main] stops the shared servers after the last test. A program without a Main calls [Close].
//   - On Linux the kernel kills the children of a test binary that dies (Pdeathsig).
//   - A reaper, one small shell process per test binary, does the rest. It notices by the end of its
//     input that the binary has died (a panic, a timeout, SIGKILL), kills the remaining processes and
//     removes the folders. Where there is no shell, the program itself is the reaper ([MainIfReaper]).
//
// A test package that uses servers needs one line:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// Shared servers ([Redis], [MariaDB], [MySQL], [ZooKeeper]) start with the first test that needs them and serve the
// whole binary. Tests are separated by key prefix ([KeyPrefix]) or by database (each call returns a new one). A test
// that kills or pauses a server starts its own ([NewRedis], [NewMariaDB], [NewMySQL], [NewZooKeeper], [Galera]). A
// [Proxy] injects network faults between a server and its clients.
//
// A test belongs to one of three tiers, and its file's name says to which:
//
//	x_test.go          go test ./...  Go alone: no process, no server, no wall clock. A test that asks for one is skipped.
//	x_servers_test.go  make test      real servers and processes (SECKILL_TEST_SERVERS=1), as slow as they may be
//	x_soak_test.go     make soak      real timing, rates and repetition (SECKILL_TEST_SOAK=1 too); [Soak] skips the rest
//
// [AnyRedis], [SQLEngines] and [SQLite] let one test serve the first two tiers: in go test they give a Redis in this
// process, and SQLite alone. A test that waits for another process does so with [Until], which has one limit for all.
//
// If a server is not installed, the test is skipped, with the command that installs it. With
// REQUIRE_INFRA=1 it fails instead: a build that is meant to prove something must not pass by skipping.
// [Installed] asks without skipping.
// All of this holds for the laboratory's experiments as well as for tests: both implement [TB].
package testkit
