// Package testkit gives tests and experiments real servers: redis-server (single, cluster, sentinel), MariaDB, MySQL and
// ZooKeeper.
//
// Every server is a child process on a free port of 127.0.0.1, in a process group of its own, with a temporary folder of
// its own. A server that this package did not start is never touched. Nothing stays behind, however the test binary ends:
//
//   - a test that ends stops what it started (Cleanup);
//   - [Main] stops the shared servers when the last test is done; a program that has none calls [Close];
//   - on Linux the kernel kills the children of a test binary that dies (Pdeathsig);
//   - a janitor, one small shell process per test binary, does the rest: it notices by the end of its input that the
//     binary is gone (a panic, a timeout, SIGKILL), kills what is left and removes the folders.
//
// A test package that uses servers says so once:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// Shared servers ([Redis], [MariaDB], [MySQL], [ZooKeeper]) start with the first test that asks and serve the whole binary, so tests
// keep apart by key prefix ([KeyPrefix]) or by database (a fresh one per call). A test that kills or pauses a server
// starts one of its own ([NewRedis], [NewMariaDB], [NewMySQL], [NewZooKeeper]). One that spoils the network between a
// server and its clients puts a [Proxy] there.
//
// A server that is not installed skips the test by name and says how to get it. With REQUIRE_INFRA=1 it fails instead:
// a build that is meant to prove something must not pass by skipping. [Installed] asks without skipping.
//
// What is said here of a test holds for an experiment of the laboratory: all that is asked of either is a [TB].
package testkit
