// Package byhand is a lock that is driven by hand: a few real processes and one key in a real store,
// which do what they are told, one move after the other. The moves are kept as a script, in one
// word for a link or as a file, which can be replayed on another bench.
//
//	setup.go   the mechanisms, and what can be done to the store of each
//	script.go  the moves, and the script
//	file.go    the file
//	bench.go   what is possible now, and what has been done
//	play.go    the moves as they are made
//	place.go   the servers, the ways of the processes to them, and what is done to both
//
// A bench has no verdict. What the processes and the store do is recorded as in an experiment, so
// that the judge finds the same anomalies in it: see [seckill/internal/lab/testbed.Rig.SoFar].
package byhand
