// Package redis is the folder of the locks that are kept in Redis, one package each, and of the suite that proves what
// each of them promises and where it breaks. In go test it runs in virtual time on a simulated server; in make test
// once on real servers and on a cluster, without what is about time; in make soak with real leases.
//
// The simulated server has no replication, no slots and no MONITOR. So these are left to real servers: that a script
// declares its keys, what a cluster does with them, and what a failover loses.
package redis
