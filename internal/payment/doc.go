// Package payment talks to the payment provider: [Client] calls it over HTTP, [Webhooks] verifies what it sends.
//
// # What the service asks
//
// Every call has the API key as a bearer token and JSON bodies. A call that moves money has an Idempotency-Key, so that
// it can be repeated until it has an answer:
//
//	POST /v1/payments               creates a payment, whose pay_url is shown to the buyer
//	POST /v1/payments/{id}/refunds  gives money back
//	GET  /v1/payments/{id}          looks a payment up
//	GET  /v1/payments?key=KEY       looks up the payment that was created under an idempotency key; only tests ask so
//
// The errors of a call fall into two classes. [ErrRefused] and [ErrNotFound] are the provider's word that nothing was
// done. After any other error the outcome is unknown: the request may have arrived, and it is repeated under the same
// key.
//
// # What the provider sends
//
// Webhooks, as the Standard Webhooks specification has them (https://www.standardwebhooks.com): signed with HMAC-SHA256
// over id, timestamp and body. An event comes at least once and in any order, so each one is a fact that stays true
// (the payment was paid, was refunded). Events' ids are not stored: whether the money is known already is decided by
// the payment's id, under which it is recorded.
//
// # What is not believed
//
// That an answer is complete, small and about the payment that was asked for; that a signed event is new; that every
// event arrives. The last one is why payments are also looked up.
//
// Package sandbox is a provider to test with.
package payment
