// Package httpapi is the service as HTTP shows it.
//
// To read it: [New] and the table of routes; then adapt, the one adapter through
// which every request goes; then problems, the one table from an error to what a
// client sees of it. A handler binds, calls, and returns either a reply or an
// error; it never writes a response and, except for success, never chooses a
// status.
//
// # What a request may count on
//
// It ends: its context has a deadline. It is answered in application/problem+json
// (RFC 9457) whenever the answer is not the one asked for; only a request that is
// not HTTP at all, or whose header is too large, gets net/http's own line of text.
// It has an id, the client's own X-Request-ID where that is sane, which is
// echoed, logged, and named in the problem.
//
// When the client hangs up, the context of its request ends and the work stops at
// the next step that looks: nobody waits for the outcome, and others wait for the
// lock. An order is then either placed or not, since it is one transaction; a
// client that sent an Idempotency-Key finds out which by sending the request
// again.
//
// # What an Idempotency-Key promises
//
// The same request under the same key gets the same answer, with
// Idempotency-Replayed: true, and is carried out once. Answers are kept for a day.
// Another request under the key is told idempotency_key_reused.
//
// An accepted order (202) is looked up before its answer is repeated. If it was lost,
// with a server that had forgotten it before it was in the database, the request is
// carried out again under the same id, and its new answer kept instead; if nobody can
// tell, the client is told unavailable. An order that is there is answered as it was, so
// as pending, also when it is confirmed by now: its state is what its address tells.
//
// What is kept is what became of the request: an order or a voucher, sold_out,
// already_ordered, sale_ended, voucher_not_found. Kept free are the keys of
// requests that came to nothing and may end otherwise the next time: busy,
// sale_not_started, and whatever was refused before it was carried out. So a
// buyer whose button was pressed a second too early may press it again. An answer
// that means "I do not know" (unavailable, internal) is not kept either. Its key
// is busy for ten seconds; then a repetition finds out what became of the first
// attempt. So does one after an attempt whose process died.
//
// # What a lock around a handler promises
//
// A route may declare a [Guard]: requests with the same key are then carried out one
// after the other, across processes. Who does not get its turn in time is told busy,
// with Retry-After: when the holder's lease is over, where that is known, and 1 to 30
// seconds. A request whose lock was lost while it was carried out is told
// unavailable, even if it succeeded, unless the lock was there to spare work only:
// see guard.around and [Guard].BestEffort.
//
// # What it costs
//
// In a rush nearly every request is told "sold out", so that path is kept lean:
// problem bodies are rendered beforehand, metrics are resolved beforehand, tokens
// that were verified before are remembered, and refusals that are a sale's
// everyday business are counted but not logged. The benchmarks compare it with a
// gin handler that does nothing else.
package httpapi
