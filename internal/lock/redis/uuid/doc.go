// Package uuid is SET NX PX with a value of one's own, which a release compares
// before it deletes. It compares in the client.
//
// # Algorithm
//
//	SET key value NX GET PX lease     nil or value: ours; else: taken
//
//	GET key                           nil: expired; another value: lost
//	DEL key                           when it was ours
//
// The value is unique across processes (a random part and a counter) and new with
// each acquisition, followed by the owner for a human, or an error, to read.
// Since NX comes with GET (Redis 7.0), a repeated SET whose first reply was lost
// finds its own value and not just "taken".
//
// # States
//
// Free, or held until the lease ends. A release passes through a third: compared
// and not yet deleted.
//
// # What is not guaranteed
//
//   - That what is deleted is what was compared. If the lease runs out between
//     GET and DEL, and somebody else gets the key, the DEL is theirs. It takes a
//     pause of the process there, or a slow network: rare, and then inexplicable.
//   - That nobody else gets in while the holder works: the lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]), nothing renews it, and the holder is
//     not told of its end.
//   - Re-entry: an owner that acquires again waits for itself.
//
// # The slip
//
// A listing that is often copied has the unlock GET the value's name and not the
// key's. It compiles, it runs, it never fails a test that takes the lock once, and
// it never releases: every comparison is of nothing with the value. Whoever comes
// next waits for the lease to run out, and a buyer who was served is locked
// out for as long. [Config.ReadsWrongKey] makes that slip, as a mechanism of its
// own, uuid-wrong-key. Here it shows as [lock.ErrExpired] from every release; in
// the listing nobody is told.
//
// # How to see it break
//
// Sell a voucher under {"lock":"uuid","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"between-compare-and-delete",
// "pause_ms":300,"probability":0.05}]}. In the conformance suite it is
// releases-atomically that shows it. Under {"lock":"uuid-wrong-key",
// "scope":"voucher"} one order is sold per lease, and of the suite everything
// breaks that releases.
package uuid
