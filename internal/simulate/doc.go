// Package simulate runs real lock and order code against a Redis in this process, in virtual time.
//
// In a bubble of testing/synctest, every clock of the service and of the server is the bubble's: a lease of 30 s costs
// nothing, and what must happen before something else is exact. Outside a bubble the same server runs in real time.
//
// It is miniredis, which executes the real .lua files. It has no replication, no persistence and no real network: what
// a killed, promoted or slow server does is shown on real ones.
package simulate
