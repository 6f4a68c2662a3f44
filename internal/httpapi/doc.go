// Package httpapi is the HTTP interface of the service.
//
// Read it in this order: [New] and the table of routes; adapt, through which every request goes; problems, the one
// table from errors to responses. A handler parses the request, calls the domain, and returns a reply or an error. It
// never writes a response and, except for success, never chooses a status.
//
// # What a client can rely on
//
// Every request ends, since its context has a deadline. Every answer other than success is application/problem+json
// (RFC 9457), with these exceptions:
//
//	not HTTP, or headers that are too large  plain text, as net/http answers
//	a range that a page does not have        416 in plain text, from [http.ServeContent]
//	a precondition of a page that fails      304 or 412 without a body, from [http.ServeContent]
//	/readyz while the instance is not ready  503 in application/json, with the checks
//	other paths of [API.Debug]               plain text
//
// Every request has an id, the client's own X-Request-ID if it is well formed. The id is echoed, logged, and part of
// each problem.
//
// If the client closes the connection, the context of its request ends and the work stops at the next step that waits
// for it: no client waits for the outcome, and other requests may wait for the lock. The connection is watched for that
// as soon as somebody waits, see [httpserver.Deadline]. The order, one transaction, is then either placed or not. A
// client that sent an Idempotency-Key finds out which by repeating the request.
//
// # What an Idempotency-Key promises
//
// The same request with the same key is carried out once and gets the same answer, the second time with
// Idempotency-Replayed: true. Answers are kept for a day. A different request with the key gets idempotency_key_reused.
//
// An order by admission keeps its key itself: see [order.Request]. A repetition is told of that order in the state that
// it has by then, for as long as the order is known. A refusal is not stored: the same request may succeed when stock
// comes back. There the key belongs to the voucher too, so the same key for another voucher is another request.
//
// Everything else is stored in the database, depending on the outcome:
//
//	an order, a voucher                   the answer
//	a refusal by the database             the answer, for example sold_out or already_ordered
//	a refusal known from memory           nothing; the key is not even reserved, see checkBeforeReserve
//	busy, sale_not_started, and requests  nothing; the key stays free, so a buyer who pressed the button
//	refused before they were carried out  a second too early can press it again
//	unavailable, internal: outcome        the reservation. Its key is busy for ten seconds; then a
//	unknown, or the process died          repetition finds out what became of the first attempt
//
// The number of keys that a user may store is bounded.
//
// # What a lock around a handler promises
//
// A route may declare a [Guard]: requests with the same key are then carried out one after the other, across processes.
// A request that does not get the lock in time is answered with busy and Retry-After: the remaining lease of the holder
// if it is known, between 1 and 5 seconds. A request that loses its lock while it is carried out is answered with
// unavailable, even if it succeeded, unless the lock only saves work. See guard.wrap and [Guard].BestEffort.
//
// # What lab mode accepts
//
// In lab mode a request needs no token, so a page of another site could make a browser send one. See package samesite
// for the requests that are refused.
//
// # Performance
//
// In a rush nearly every request is answered with sold_out, so that path is kept short: problem bodies are rendered
// beforehand, metrics are resolved beforehand, verified tokens are cached, and the ordinary refusals of a sale are
// counted but not logged. The benchmarks compare it with a gin handler that does nothing else.
package httpapi
