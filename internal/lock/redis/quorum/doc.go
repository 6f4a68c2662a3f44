// Package quorum is what the locks over several independent Redis nodes share: package multi needs all nodes, package
// red a majority.
//
// A node is a Redis server of its own, on its own machine, and not a replica of another. All nodes are asked at the
// same time, and each has Config.NodeTimeout to answer. The lease of the whole is counted from before the first
// command. It is shorter than that of any node, by as much as the clocks may drift apart, as the Redis documentation of
// Redlock requires.
//
//	SET key value NX GET PX ttl       nil or value: granted; else: taken
//	extend.lua                        extended, free or another holder's
//	release.lua                       deleted, free or another holder's
//
// # Unknown outcomes
//
// go-redis would repeat a command without telling, so each is sent once, and the node repeats it itself within the same
// NodeTimeout. A SET that is repeated recognises its own value. A release that is repeated and finds nothing has
// succeeded, as long as the lease could not have expired. What a node may have granted without confirming it is
// released: in the background where the node does not answer at once.
//
// # Where to start reading
//
// quorum.go, votes.go, lease.go, cleanup.go, localqueue.go; then node.go for the connection to a node.
package quorum
