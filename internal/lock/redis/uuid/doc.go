// Package uuid is SET NX PX with a unique value, which a release compares before it deletes. The comparison is made in
// the client.
//
// # Algorithm
//
//	SET key value NX GET PX ttl       nil or value: granted; else: taken
//
//	GET key                           nil: expired; another value: lost
//	DEL key                           if the value was its own
//
// The value is unique across processes (a random part and a counter) and new with each acquisition. The owner follows
// it, for error messages and people to read. Because NX comes with GET (Redis 7.0), a SET that is repeated after a lost
// reply finds its own value and not just "taken".
//
// # States
//
// Free, or held until the lease ends. A release passes through a third state: compared and not yet deleted.
//
// # What is not guaranteed
//
//   - That the deleted lock is the one that was compared. If the lease ends between GET
//     and DEL and somebody else gets the key, DEL deletes their lock. It takes a pause of
//     the process at that point, or a slow network: rare, and then hard to explain.
//   - That nobody else gets the lock while the holder works: the lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]), nothing renews it, and the holder is not told of
//     its end.
//   - That a failed acquisition leaves nothing. Where there is no reply, or the context ends
//     first, the value is looked for and deleted once. A SET that Redis executes after that
//     takes the key for its lease, and nobody releases it.
//   - Re-entry: an owner that acquires again waits for itself.
//
// # The wrong key
//
// In a listing that is often copied, the unlock calls GET with the value and not with the key. It compiles, it runs, it
// passes every test that takes the lock once, and it never releases: it always compares nothing with the value. The
// next caller waits until the lease ends, and a buyer who was served is locked out for as long. [Config.ReadsWrongKey]
// makes this mistake, as a mechanism of its own: uuid-wrong-key. Here every release returns [lock.ErrExpired]; the
// listing reports nothing.
//
// # How to see it break
//
// Sell a voucher under {"lock":"uuid","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"between-compare-and-delete", "pause_ms":300,"probability":0.05}]}. In the
// conformance suite, releases-atomically shows it. Under {"lock":"uuid-wrong-key","scope":"voucher"} one order is sold
// per lease, and in the suite every behaviour that needs a release breaks.
package uuid
