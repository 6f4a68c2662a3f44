// Package idworker mints order ids: positive 63-bit numbers that are unique, however many processes mint them.
//
//	                [Sonyflake]                  [RedisCounter]
//	an id holds     tick, sequence, machine id   second, count of the day
//	Redis is asked  to lease a machine id        for every id, one round trip each
//
// Use only one of them for a table: their bits are laid out differently, so both could produce the same number.
//
// # Sonyflake
//
//	39 bits  ticks of 10 ms since 2022-01-01 UTC (174 years)
//	 8 bits  sequence: 256 ids per tick
//	16 bits  machine id
//
// An id repeats if the same machine id is used twice in the same tick with the same sequence. By default the library
// takes the machine id from the low half of the host's private address, so all processes on a host share one. Here each
// process leases [Config.Machines] machine ids from Redis. Each is good for 25,600 ids a second.
//
// Each leased machine id has two keys in Redis: a lease, which names its holder and expires, and a mark. They have
// separate purposes.
//
// The mark makes ids unique. It is a tick, a high-water mark, with two rules:
//
//   - A holder mints only in ticks up to the mark that Redis has acknowledged to it.
//   - A machine id is leased only to a process whose own clock has passed the mark.
//
// Acquiring and renewing move the mark ahead, to the tick in which the lease expires. So the ticks of one holder and of
// the next never overlap, whatever the two clocks show and however late either process is. A holder that was paused
// between checking its lease and minting an id still mints below the mark, and the next holder mints above it. No
// timing is involved. The rule judges an id by the tick in it, so it also covers the one tick by which sonyflake runs
// ahead of the clock when a sequence is used up.
//
// The lease says who may use the machine id now. It spares others a useless attempt, and it bounds how long a dead
// holder blocks the machine id. It is renewed every [Config.Renewal]. Minting stops with [ErrNoLease] when the lease is
// found to be expired, deleted or taken over, and at the latest nine tenths of [Config.TTL] after the last successful
// renewal was sent. Every id is preceded by that check, on the monotonic clock, which runs on while a process is
// paused. A new machine id is leased in the background, and minting resumes with it.
//
// A release moves the mark back to the last tick that was used:
//
//	situation                                  effect
//	restart in a tick, on the same machine id  the process waits for the next tick
//	clock behind the mark                      the process leases another machine id
//
// A killed holder leaves its mark ahead. Its machine id is unavailable until the lease has expired and the clock has
// passed the mark.
//
// # When the clock steps back
//
// While a process runs: it waits out a step of up to 100 ms, and still mints the ids that are left of the current
// tick's 256. After a larger step it releases the machine id, whose mark is now in the future, and leases another one.
//
// Across processes: the mark refuses a holder whose clock is behind. A mark is kept for [Config.MarkRetention] after
// Redis' clock has passed it. A clock that is further behind than that goes unnoticed.
//
// # Not guaranteed
//
//   - Order: ids grow with time only within one machine id.
//   - Uniqueness after Redis loses leases and marks: by FLUSHALL, by a restart without
//     persistence, or by a failover to a replica that lacked them. Holders stop when their
//     next renewal finds no lease, but until then a new process may lease a machine id in
//     use. Machine ids are drawn at random from 65,536, so this is unlikely.
//     [Config.GracePeriod] makes it impossible when Redis comes back empty, at the price
//     of a wait. The primary key of the orders refuses any remaining duplicate.
//   - Uniqueness after Redis evicts keys: set maxmemory-policy noeviction.
//
// # Machine ids that are locks
//
// [NewSonyflakeWithLocks] leases machine ids as locks of package lock, for a process that must mint while Redis is
// away. The lease works as above. There is no mark: an id can repeat if, within the difference between two clocks, the
// lock of a machine id ends and the same one is drawn again. Among thousands of machine ids that is as unlikely as the
// case of a Redis that lost its marks, and the primary key refuses it too.
//
// # RedisCounter
//
//	31 bits  seconds since 2022-01-01 UTC (68 years)
//	32 bits  the count of the day, from 1
//
// The count has one key per UTC day, such as icr:order:2026:11:21. In many systems these keys stay for ever, one more
// each day; here a key expires two days after its first count. Second and day come from one reading of the clock, so a
// second always belongs to one counter. A counter never returns a count twice while its key exists, so clocks that
// differ or step back repeat no id.
//
// Not guaranteed, besides order between processes whose clocks differ:
//
//   - Uniqueness after Redis loses the counter (no persistence, a failover, the last
//     second of an AOF that is synced once a second): the count starts again. An id
//     repeats if it gets the same second and the same count as an earlier one.
//   - Uniqueness with a clock that is off by more than a day: the counter may have expired.
//   - More than 2^32 ids a day: [ErrExhausted]. Without that check the count would overflow
//     into the seconds.
//   - Availability: an id costs a round trip, and there is none while Redis does not
//     answer. A count whose reply is lost is skipped.
package idworker
