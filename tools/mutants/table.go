package main

import "slices"

// mutant is one deliberate fault.
type mutant struct {
	fault    string // what is wrong now, for a reader
	file     string // below the project's folder
	old, new string // what it replaces, which stands there exactly once, and by what
	packages string // whose tests are to catch it, as go test takes them
}

// table lists the faults. They are of the kind that one makes: a comparison left out, a step too early, a bound that is
// off by one. A new promise comes with its fault.
func table() []mutant {
	return slices.Concat(inLocks(), inOrders(), inAdmission(), inDatabase(), onShards(), inStock(), inSteering(), inRooms(), inAPI(), inLaboratory())
}
