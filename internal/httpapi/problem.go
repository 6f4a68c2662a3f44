package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// What this package itself has to say no to.
var (
	errInvalid         = errors.New("httpapi: invalid request")
	errTooLarge        = errors.New("httpapi: payload too large")
	errUnauthenticated = errors.New("httpapi: unauthenticated")
	errForbidden       = errors.New("httpapi: forbidden")
	errLabOnly         = errors.New("httpapi: lab mode only")
	errNoRoute         = errors.New("httpapi: no such resource")
	errMethod          = errors.New("httpapi: method not allowed")
	errKeyReused       = errors.New("httpapi: idempotency key reused")
	errInProgress      = errors.New("httpapi: request with this idempotency key in progress")
	errRateLimited     = errors.New("httpapi: rate limited")
	errPanic           = errors.New("httpapi: panic")
)

// rateLimitedError is an [errRateLimited] that says for how long.
type rateLimitedError struct{ wait time.Duration }

func (e *rateLimitedError) Error() string { return fmt.Sprintf("%v for %v", errRateLimited, e.wait) }

func (e *rateLimitedError) Unwrap() error { return errRateLimited }

// problem is a row of the table: what a client is told of some errors.
type problem struct {
	status int
	code   string
	title  string
	errs   []error
	fate   fate
	traits traits

	prefix []byte // the body up to its first changing member
}

// fate is what a refusal says about the request's effect.
type fate uint8

const (
	// unknown: the request may have had its effect. A repetition under the same
	// idempotency key has to find out.
	unknown fate = iota
	// settled: it is decided, and a repetition is told the same.
	settled
	// undone: nothing was done, and another try may go another way.
	undone
)

type traits uint8

const (
	// tell: the error's text, past that of the sentinel, is for the client.
	tell traits = 1 << iota
	// retry: the client is told when to come again, see retryIn.
	retry
	// everyday: a sale's ordinary business, which nobody wants in the log.
	everyday
)

// table maps errors to answers. The first row that has an error anywhere in the
// chain wins; what nothing matches is the last row. The rows of a rush come
// first. "unavailable" stands before "busy": where an error says both, the order's
// fate may be open.
func table() []*problem {
	const (
		bad          = http.StatusBadRequest
		unauthorized = http.StatusUnauthorized
		forbidden    = http.StatusForbidden
		notFound     = http.StatusNotFound
		conflict     = http.StatusConflict
	)
	return []*problem{
		{conflict, "sold_out", "The voucher is sold out", is(voucher.ErrSoldOut), settled, everyday, nil},
		{conflict, "already_ordered", "You have ordered this voucher already", is(order.ErrAlreadyOrdered), settled, everyday, nil},
		{conflict, "sale_ended", "The sale has ended", is(voucher.ErrEnded), settled, everyday, nil},
		// Not settled: a button that is pressed too early, and again in time, may
		// well send the same key.
		{conflict, "sale_not_started", "The sale has not started yet", is(voucher.ErrNotStarted), undone, everyday, nil},
		{http.StatusServiceUnavailable, "unavailable", "The service cannot answer at the moment", is(
			order.ErrUnavailable, lock.ErrUnavailable, lock.ErrNotConfigured, lock.ErrUnknown,
			lock.ErrLost, lock.ErrExpired, lock.ErrNotHeld, lock.ErrReleased,
			lock.ErrInjected, lock.ErrAbandoned,
			context.DeadlineExceeded, context.Canceled,
		), unknown, retry, nil},
		{conflict, "busy", "Another request is in the way; try again", is(
			order.ErrBusy, order.ErrConflict, order.ErrStale, lock.ErrNotAcquired, errInProgress,
		), undone, retry | everyday, nil},
		// As above, but here it is certain that nothing was done; and there is no log line
		// for each of those who are turned away because there are too many.
		{http.StatusServiceUnavailable, "unavailable", "Too many orders are on their way; try again", is(order.ErrOverloaded), undone, retry | everyday, nil},
		{http.StatusTooManyRequests, "rate_limited", "You are asking too often", is(errRateLimited), undone, retry | everyday, nil},
		{notFound, "voucher_not_found", "There is no such voucher", is(voucher.ErrNotFound), settled, 0, nil},
		{notFound, "order_not_found", "There is no such order of yours", is(order.ErrNotFound), settled, 0, nil},
		{bad, "invalid_request", "The request is not valid", is(errInvalid, voucher.ErrInvalid), undone, tell, nil},
		{unauthorized, "unauthenticated", "Who are you?", is(errUnauthenticated), undone, tell, nil},
		{forbidden, "forbidden", "This is for the administrator", is(errForbidden), undone, 0, nil},
		{forbidden, "lab_only", "This needs a server in lab mode", is(errLabOnly, voucher.ErrLabOnly), undone, tell, nil},
		{notFound, "not_found", "There is nothing at this address", is(errNoRoute), undone, 0, nil},
		{http.StatusMethodNotAllowed, "method_not_allowed", "This address does not take that method", is(errMethod), undone, 0, nil},
		{http.StatusRequestEntityTooLarge, "payload_too_large", "The body is too large", is(errTooLarge), undone, tell, nil},
		{http.StatusUnprocessableEntity, "idempotency_key_reused", "This idempotency key belongs to another request", is(errKeyReused), undone, 0, nil},
		// Nobody reads this one: the log and the metrics do.
		{statusClientGone, "client_gone", "The client went away", nil, unknown, everyday, nil},
		{http.StatusInternalServerError, "internal", "Something went wrong on our side",
			is(order.ErrStaleEpoch, order.ErrIDTaken, lock.ErrInvalid, lock.ErrWrongKind, errPanic), unknown, 0, nil},
	}
}

// statusClientGone is what nginx logs for a client that did not wait.
const statusClientGone = 499

func is(errs ...error) []error { return errs }

// problems is the table, ready for use, and what else the replies share.
type problems struct {
	rows           []*problem
	gone, internal *problem

	contentType, json  []string
	noStore, challenge []string
	seconds            [maxRetryAfter + 1][]string
}

// maxRetryAfter is the longest that a client is told to stay away, in seconds: a
// holder may well be done before its lease is over, and one whose lease is renewed
// always has most of it before it.
const maxRetryAfter = 5

func newProblems() *problems {
	ps := &problems{
		rows:        table(),
		contentType: []string{"application/problem+json"},
		json:        []string{"application/json"},
		noStore:     []string{"no-store"},
		challenge:   []string{`Bearer realm="seckill"`},
	}
	for _, p := range ps.rows {
		p.prefix = fmt.Appendf(nil, `{"type":"urn:seckill:problem:%s","title":%q,"status":%d,"code":%q`,
			p.code, p.title, p.status, p.code)
	}
	for i := range ps.seconds {
		ps.seconds[i] = []string{strconv.Itoa(i)}
	}
	ps.internal = ps.rows[len(ps.rows)-1]
	ps.gone = ps.rows[len(ps.rows)-2]
	return ps
}

// find returns the row of an error, and which of the row's errors it is.
func (ps *problems) find(err error) (p *problem, matched error) {
	for _, p := range ps.rows {
		for _, target := range p.errs {
			if errors.Is(err, target) {
				return p, target
			}
		}
	}
	return ps.internal, nil
}

// refuse turns an error into the reply.
func (a *API) refuse(r *request, err error) reply {
	p, matched := a.problems.find(err)
	if p.fate == unknown && r.Context().Err() != nil {
		p = a.problems.gone
	}
	body := append(r.scratch[:0], p.prefix...)
	if p.traits&tell != 0 {
		if detail := detailOf(err, matched); detail != "" {
			quoted, _ := json.Marshal(detail) // a string always marshals
			body = append(append(body, `,"detail":`...), quoted...)
		}
	}
	// The id's alphabet needs no escaping.
	body = append(append(append(body, `,"request_id":"`...), r.id...), `"}`...)
	out := reply{
		status: p.status, contentType: a.problems.contentType, body: body,
		outcome: p.code, problem: p, err: err,
	}
	if p.traits&retry != 0 {
		out.retryAfter = a.problems.seconds[retryIn(err)]
	}
	return out
}

// retryIn is after how many seconds another try may go better: when the lease of
// whoever holds the lock is over, or the user may ask again, where that is known.
func retryIn(err error) int {
	var wait time.Duration
	if busy, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
		wait = busy.TTL // also of lock.NoExpiry
	} else if limited, ok := errors.AsType[*rateLimitedError](err); ok {
		wait = limited.wait
	}
	wait = min(wait, maxRetryAfter*time.Second)
	return max(1, int((wait+time.Second-1)/time.Second))
}

// detailOf is what an error says beyond the sentinel that it wraps.
func detailOf(err, sentinel error) string {
	_, detail, _ := strings.Cut(err.Error(), sentinel.Error()+": ")
	return detail
}

// invalid is an [errInvalid] with what is wrong, in words for the client.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errInvalid}, args...)...)
}

// unavailable is an [order.ErrUnavailable]: what was being done, and why not.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", order.ErrUnavailable, doing, err)
}

// statusClass is "2xx" for 201.
func statusClass(status int) string { return strconv.Itoa(status/100) + "xx" }
