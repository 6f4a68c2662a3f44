// Package pairing ties a database to its Redis. Orders are lost if two instances with one database use two Redis
// servers, or if a copy of the database is used with the Redis of the original: each side takes the orders of the other
// one for its own, or for stale ones.
//
// # The mark
//
// Both stores have the same generation and the same random mark. Running instances replace the mark about once a
// second, in both ([Pairing.Run]). So two stores fit each other only if the same instances write to both of them:
//
//	  database                     Redis
//	mark a, next -               mark a
//	mark a, next b   proposed    mark a
//	mark a, next b               mark b    moved: Redis has the database's mark, or its next one
//	mark b, next -   settled     mark b
//
// Each step compares and changes at once, in one store. If a process dies between two steps, any other one finishes
// them. A copy of one store can follow for no longer than until the next mark.
//
// # What an instance does
//
//	the stores                                  the instance
//	fit                                         is paired: it accepts, opens and persists
//	have never been paired                      pairs them
//	do not fit, and one of them still changes   is refused: other instances use that store with another one
//	do not fit, and nothing changes for quiet   makes a new generation, if both stores are those of the pair by their names
//	the same, by other names                    is refused until an operator decides: api adopt
//	the database does not answer                stays as it is, while Redis has its generation
//	Redis does not answer                       stays as it is
//
// A process that was paired before waits for less than one that has just started: it knows that it is its own Redis
// that is empty or has older data, or its own database that has older data. Another process that has the real one
// changes the mark meanwhile.
//
// The names are where the stores are, as configured, without secrets. Under another name an empty Redis is no proof
// that the former one is gone: it may have accepted orders that nobody has persisted. After a clean stop
// ([Pairing.Leave]) it has none, so that Redis may be another one then.
//
// # What decides
//
// The state of an instance is as old as its last look at both stores. Where it matters, the generation decides at the
// same moment as the change: the database has the generation of each voucher, and Redis of each bucket, of when it was
// closed or opened last, and refuse a process of an earlier generation. A voucher of an earlier generation is rebuilt
// from the database before anything of it is sold.
//
// A copy that is younger than the mark fits, too. So a process that has just started waits until others have changed
// the mark of its own stores, or until nobody has changed it for a while.
//
// # Not guaranteed
//
// If a copy of a store takes over while instances use the original, such as a replica that is promoted beside its
// primary, the first instance that changes the mark decides which of the two belongs to the pair. The others are
// refused.
package pairing
