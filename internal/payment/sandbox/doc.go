// Package sandbox is a payment provider to develop and test with: an HTTP server of its own with the calls that package
// payment makes, a payment page, and webhooks. No money moves.
//
//	POST /v1/payments               Idempotency-Key; 201 the payment, the same when repeated
//	GET  /v1/payments/{id}          the payment
//	GET  /v1/payments?key=KEY       the payment that was created under the idempotency key, in a list
//	GET  /v1/payments?after=N       the payments, oldest first: the sandbox's books, for audits
//	POST /v1/payments/{id}/refunds  Idempotency-Key; 201 the refund, the same when repeated
//	GET, PUT /sandbox/behaviour     the switches, see [Behaviour]
//	GET, POST /pay/{id}             the payment page: pay or refuse, and the way back to return_url. It works without scripts
//
// Calls below /v1 and /sandbox need the API key. The address of a payment page is the secret of that page: its id has
// 128 random bits. Pages are served under the sandbox's own host names only, and a decision that a page of another site
// has sent is refused: see package samesite.
//
// # A payment's states
//
//	open → processing → paid    the buyer pays; with the switch pay_late_ms the money arrives later
//	open → paid                 without it at once
//	open → refused              the buyer refuses
//	refused → …                 as open: it may be tried again
//	open, refused → expired     the buyer did not pay until expires_at
//
// Money that is on its way arrives, also after expires_at. A refund gives back a part of a paid payment or all of it,
// never more.
//
// # Webhooks
//
// Each change of state, and each refund, is an event. An event is delivered at least once: until the receiver has
// answered 2xx, after pauses that double up to a bound. What is not delivered after a day is given up.
//
// # What survives
//
// With a file, every change is appended to it before anybody is told: payments, refunds, idempotency keys and events
// that are yet to be delivered survive a kill of the process. They need not survive a power cut: the file is not
// synced, and the sandbox is no example of how to keep money. Without a file nothing is kept.
package sandbox
