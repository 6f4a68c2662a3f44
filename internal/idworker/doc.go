// Package idworker mints order ids: positive 63-bit numbers that are never the
// same twice, however many processes mint them.
//
// [Sonyflake] needs no server for an id: it mints from the clock, a sequence and
// a machine id, and asks Redis only for the right to use that machine id.
// [RedisCounter] is the usual scheme of a second and a counter in Redis, with one
// round trip for each id. Choose one for a table and stay with it: the two
// lay out their bits differently and could meet in one number.
//
// # Sonyflake
//
//	39 bits  ticks of 10 ms since 2022-01-01 UTC (174 years)
//	 8 bits  sequence: 256 ids per tick
//	16 bits  machine id
//
// An id repeats if the same machine id is used twice in the same tick with the
// same sequence. The library's default, the low half of the host's private
// address, makes all processes on a host one machine; here machine ids are leased
// from Redis, [Config.Machines] per process, 25,600 ids a second each.
//
// Each leased machine id has two keys: a lease, which names its holder and
// expires, and a mark. They do two separate things.
//
// The mark makes ids unique. It is a tick, and the rule is: nobody mints in a
// tick beyond the mark that Redis has acknowledged to him, and nobody is given a
// machine id whose mark his own clock has not passed. Acquiring and renewing move
// the mark ahead, to where the clock will be when the lease runs out. The ticks
// of one holder and of the next can therefore not overlap, whatever the clocks
// of the two show and however late either is: a holder that was stopped between
// its last look at the lease and the minting of an id still mints below the mark,
// the next one above. No timing enters into this. What the former holder could
// have minted until its lease's end is below the mark because it was not allowed
// to mint above it. This includes the tick that sonyflake runs ahead of the clock
// when a sequence is used up: ids are judged by the tick in them.
//
// The lease says who may use the machine id now: it keeps others from wasting
// their time on it, and it bounds how long a dead holder keeps it. It is renewed
// every [Config.Renewal]. Minting stops with [ErrNoLease] when the lease is seen
// to be gone or taken, and at the latest at nine tenths of [Config.TTL], counted
// from before the last successful renewal was sent. This is looked at for each
// id, on the monotonic clock, which goes on while a process is stopped. A new
// machine id is sought in the background, and minting goes on when there is one.
//
// A release puts the mark back to the last tick that was used. A process that
// restarts within a tick on the same machine id waits for the next tick; one
// whose clock is behind the mark takes another machine id. A holder that was
// killed leaves its mark ahead, so that its machine id is out of use until its
// lease has expired and the clock has passed the mark.
//
// # When the clock steps back
//
// While a process runs: a step of up to 100 ms is waited out (what is left of
// the current tick's 256 is still minted). After a larger one the machine id is
// given back, with a mark in what is now the future, and another one is leased.
//
// Across processes: the mark refuses a holder whose clock is behind. Marks are
// kept for [Config.Memory] after they have passed by Redis' clock; a clock that
// is further behind than that is not noticed.
//
// # Not guaranteed
//
//   - Order: ids grow with time within one machine id only.
//   - Redis losing leases and marks, by FLUSHALL, by a restart without
//     persistence or by a failover to a replica that had not got them yet. Holders
//     stop when their next renewal finds nothing, but until then a newcomer may
//     get a machine id in use: machine ids are drawn at random from 65,536, so
//     that this is unlikely, and [Config.Settle] makes it impossible where Redis
//     comes back empty, at the price of a wait. The primary key of the orders
//     refuses what is left.
//   - Redis evicting keys: give it maxmemory-policy noeviction.
//
// # RedisCounter
//
//	31 bits  seconds since 2022-01-01 UTC (68 years)
//	32 bits  the count of the day, from 1
//
// The count lives under a key per UTC day, icr:order:2026:11:21. Often these
// keys are left for ever, one more each day; here a key expires two days after its
// first count. Second and day come from one reading of the clock, so that a
// second always belongs to one counter. While that counter lives no count is
// given twice, hence a clock that differs or steps back repeats no id.
//
// Not guaranteed, besides order between processes whose clocks differ:
//
//   - Redis losing the counter (no persistence, a failover, the last second of an
//     AOF that is synced once a second) starts the count again: every id minted in
//     the same second as one before, and with its count, is a duplicate.
//   - A clock that is off by more than a day may find its counter expired.
//   - More than 2^32 ids a day: [ErrExhausted]. Where the count is not checked, it
//     overflows into the seconds.
//   - An id costs a round trip, and there is none while Redis does not answer. A
//     count whose reply was lost is skipped.
package idworker
