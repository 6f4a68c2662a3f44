// Package stage is what an experiment plays on: real servers, API processes, a voucher
// on sale and its buyers, and somebody who watches the lock's store.
//
// A [House] has the servers and processes that experiments share. Each is started when
// it is first asked for, and all are gone after [House.Close], or when the program dies.
// [House.Play] opens a [Stage] for one experiment and clears it afterwards.
//
// A scene is a linear script without error plumbing. As in a test, a step that cannot
// be done ends it: [Stage.Fatalf] panics with a value that only the house recovers.
// Call what can fail from the scene's own goroutine, or from one made by [Stage.Go].
//
// # Two arrangements
//
// With redis-server and mariadbd installed, API processes share them. Else, or where
// [Options].Embedded asks for it, there is one API process with SQLite and an
// in-process Redis, and only what needs no server plays.
package stage
