// Package quorum is what the locks over several independent Redis nodes share:
// mechanism multi asks for all of them, mechanism red for a majority.
//
// A node is a Redis of its own: no replica of another, and on another machine. All
// nodes are asked at the same time, and each has NodeTimeout to answer. The lease
// of the whole is counted from before the first command and is shorter than that
// of any node by what the clocks may drift apart, as the Redis documentation of
// Redlock has it.
//
//	SET key value NX GET PX lease     nil or value: ours; else: taken
//	extend.lua                        extended, gone or somebody else's
//	release.lua                       deleted, gone or somebody else's
//
// # Outcomes that are not known
//
// A command is sent once by go-redis, which would repeat it silently, and a second
// time by the node here, within the same NodeTimeout. A SET that is repeated
// recognises its own value; a release that is repeated and finds nothing has
// succeeded, as long as the lease could not have run out. What a node may have got
// and did not confirm is taken away on time of its own, in the background where
// the node does not answer at once.
package quorum
