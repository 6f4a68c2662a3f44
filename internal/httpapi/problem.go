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

	"seckill/internal/httpserver"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/room"
	"seckill/internal/voucher"
)

// The errors of this package itself.
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

// rateLimitedError is an [errRateLimited] with the time to wait.
type rateLimitedError struct{ wait time.Duration }

func (e *rateLimitedError) Error() string { return fmt.Sprintf("%v for %v", errRateLimited, e.wait) }

func (e *rateLimitedError) Unwrap() error { return errRateLimited }

// problem is a row of the table: the answer for some errors.
type problem struct {
	status int
	code   string
	title  string
	errs   []error
	effect effect
	traits traits

	prefix []byte // the body up to the first member that varies
}

// effect is what an error says about the effect of the request.
type effect uint8

const (
	// effectUnknown: the request may have taken effect. A repetition with the same idempotency key has to find out.
	effectUnknown effect = iota
	// effectFinal: the outcome is final, and a repetition is told the same.
	effectFinal
	// effectNone: nothing was done, and another attempt may end differently.
	effectNone
)

type traits uint8

const (
	// showDetail: the client is shown the error's text after that of the sentinel.
	showDetail traits = 1 << iota
	// retry: the answer has a Retry-After header, see retryIn.
	retry
	// routine: an ordinary event of a sale, which is not logged.
	routine
	// closeConnection: the connection is closed, since an open one costs memory. net/http does not wait for the rest of
	// the body then.
	closeConnection
)

// table maps errors to answers. The first row with an error of the chain applies, the last row if there is none. The
// rows that a rush needs come first. "unavailable" comes before "busy": if an error says both, the outcome of the order
// may be unknown.
func table() []*problem {
	const (
		bad          = http.StatusBadRequest
		unauthorized = http.StatusUnauthorized
		forbidden    = http.StatusForbidden
		notFound     = http.StatusNotFound
		conflict     = http.StatusConflict
	)
	return []*problem{
		{conflict, "sold_out", "The voucher is sold out", is(voucher.ErrSoldOut), effectFinal, routine, nil},
		{conflict, "already_ordered", "You have ordered this voucher already", is(order.ErrAlreadyOrdered), effectFinal, routine, nil},
		{conflict, "sale_ended", "The sale has ended", is(voucher.ErrEnded), effectFinal, routine, nil},
		// Not final: a button that is pressed too early, and again in time, may send the same key.
		{conflict, "sale_not_started", "The sale has not started yet", is(voucher.ErrNotStarted), effectNone, routine, nil},
		{conflict, "sale_paused", "The sale is paused", is(voucher.ErrPaused), effectNone, routine, nil},
		{http.StatusServiceUnavailable, "unavailable", "The service cannot answer at the moment", is(
			order.ErrUnavailable, order.ErrPaymentUnavailable, lock.ErrUnavailable, lock.ErrNotConfigured, lock.ErrUnknown,
			lock.ErrLost, lock.ErrExpired, lock.ErrNotHeld, lock.ErrReleased,
			lock.ErrInjected, lock.ErrAbandoned,
			context.DeadlineExceeded, context.Canceled,
		), effectUnknown, retry, nil},
		{conflict, "busy", "Another request is in the way; try again", is(
			order.ErrBusy, order.ErrConflict, voucher.ErrChanged, voucher.ErrNotDrained, order.ErrStale, lock.ErrNotAcquired, errInProgress,
		), effectNone, retry | routine, nil},
		// The same code, but nothing was done for certain, and overload must not fill the log.
		{http.StatusServiceUnavailable, "unavailable", "Too many orders are on their way; try again", is(order.ErrOverloaded), effectNone, retry | routine, nil},
		{http.StatusServiceUnavailable, "unavailable", "Too many requests are on their way; try again", is(voucher.ErrBusy), effectNone, retry | routine, nil},
		{http.StatusServiceUnavailable, "unavailable", "Too many requests are on their way; try again", is(httpserver.ErrTooMany), effectNone, retry | routine | closeConnection, nil},
		{http.StatusTooManyRequests, "rate_limited", "Too many of your requests are at work; wait for their answers", is(httpserver.ErrTooManyOfClient), effectNone, retry | routine | closeConnection, nil},
		{http.StatusTooManyRequests, "rate_limited", "You are asking too often", is(errRateLimited), effectNone, retry | routine, nil},
		{conflict, "room_not_open", "The waiting room is not open yet", is(room.ErrNotOpen), effectNone, showDetail | routine, nil},
		{forbidden, "pass_required", "An order of this voucher needs a pass of its waiting room", is(order.ErrPassRequired), effectNone, showDetail | routine, nil},
		{conflict, "address_full", "Enough tickets of the draw went to your address; there are more when the sale has begun", is(room.ErrAddress), effectNone, showDetail | routine, nil},
		{forbidden, "work_required", "A ticket needs a proof of work", is(room.ErrWork), effectNone, showDetail | routine, nil},
		{notFound, "room_not_found", "The voucher has no waiting room: an order needs no pass", is(room.ErrNoRoom), effectNone, routine, nil},
		{forbidden, "ticket_refused", "This is no ticket of yours for this waiting room", is(room.ErrTicket), effectNone, routine, nil},
		{notFound, "voucher_not_found", "There is no such voucher", is(voucher.ErrNotFound), effectFinal, 0, nil},
		{notFound, "order_not_found", "There is no such order of yours", is(order.ErrNotFound), effectFinal, 0, nil},
		// Not final: an order changes its state.
		{conflict, "not_cancellable", "The order cannot be cancelled in its state", is(order.ErrNotCancellable), effectNone, showDetail | routine, nil},
		{conflict, "not_payable", "The order cannot be paid in its state", is(order.ErrNotPayable), effectNone, showDetail | routine, nil},
		{conflict, "not_refundable", "The order cannot be refunded in its state", is(order.ErrNotRefundable), effectNone, showDetail | routine, nil},
		{conflict, "not_payable", "The payment provider does not take this payment", is(order.ErrPaymentRefused), effectNone, 0, nil},
		// The log says what is wrong with the answer.
		{http.StatusBadGateway, "payment_unusable", "The payment provider's answer cannot be used; the order can still be paid until its time is over",
			is(order.ErrPaymentUnusable), effectNone, 0, nil},
		{http.StatusPreconditionFailed, "precondition_failed", "The voucher was changed meanwhile; read it again", is(voucher.ErrRevision), effectNone, showDetail, nil},
		{http.StatusPreconditionRequired, "precondition_required", "A change says for which voucher it is meant", is(errUnconditional), effectNone, showDetail, nil},
		{conflict, "sale_begun", "The sale has begun", is(voucher.ErrBegun), effectNone, showDetail, nil},
		{conflict, "not_enough_stock", "Not enough units are unsold", is(voucher.ErrTooFew), effectNone, showDetail, nil},
		{conflict, "has_orders", "The voucher has orders", is(voucher.ErrHasOrders), effectNone, 0, nil},
		{bad, "invalid_request", "The request is not valid", is(errInvalid, voucher.ErrInvalid, payment.ErrMalformed), effectNone, showDetail, nil},
		{unauthorized, "unauthenticated", "Who are you?", is(errUnauthenticated), effectNone, showDetail, nil},
		{unauthorized, "unauthenticated", "The webhook is not accepted", is(payment.ErrForged, payment.ErrStale), effectNone, closeConnection, nil},
		{forbidden, "forbidden", "This is for the administrator", is(errForbidden), effectNone, 0, nil},
		{forbidden, "forbidden", "This server does not take that request from there", is(errCrossSite), effectNone, showDetail, nil},
		{forbidden, "lab_only", "This needs a server in lab mode", is(errLabOnly, voucher.ErrLabOnly), effectNone, showDetail, nil},
		{notFound, "not_found", "There is nothing at this address", is(errNoRoute), effectNone, 0, nil},
		{http.StatusMethodNotAllowed, "method_not_allowed", "This address does not take that method", is(errMethod), effectNone, 0, nil},
		{http.StatusRequestEntityTooLarge, "payload_too_large", "The body is too large", is(errTooLarge), effectNone, showDetail, nil},
		{http.StatusUnprocessableEntity, "idempotency_key_reused", "This idempotency key belongs to another request", is(errKeyReused), effectNone, 0, nil},
		// No client reads this one. It is for the log and the metrics.
		{statusClientGone, "client_gone", "The client went away", nil, effectUnknown, routine, nil},
		{http.StatusInternalServerError, "internal", "Something went wrong on our side",
			is(order.ErrStaleEpoch, order.ErrFutureEpoch, order.ErrIDTaken, order.ErrPaymentNotFound, lock.ErrInvalid, lock.ErrWrongKind, errPanic), effectUnknown, 0, nil},
	}
}

// statusClientGone is the status that nginx logs for a client that closed the connection.
const statusClientGone = 499

func is(errs ...error) []error { return errs }

// problems is the table with its rendered bodies, and the header values that all replies share.
type problems struct {
	rows           []*problem
	gone, internal *problem
	lines          map[string]*httpserver.LineLimit // of the log, by outcome

	contentType, json  []string
	noStore, challenge []string
	closeConnection    []string
	seconds            [maxRetryAfter + 1][]string
}

// maxRetryAfter bounds Retry-After, in seconds. A holder may release its lock long before its lease ends, and a lease
// that is renewed always has most of its time left.
const maxRetryAfter = 5

func newProblems() *problems {
	ps := &problems{
		rows:            table(),
		contentType:     []string{"application/problem+json"},
		json:            []string{"application/json"},
		noStore:         []string{"no-store"},
		closeConnection: []string{"close"},
		challenge:       []string{`Bearer realm="seckill"`},
		// What a user can repeat and cause nothing new has a limit, too. Orders have none: the stock bounds them.
		lines: map[string]*httpserver.LineLimit{"ok": {}, "replayed": {}},
	}
	for _, p := range ps.rows {
		ps.lines[p.code] = &httpserver.LineLimit{}
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

// find returns the row of an error, and the sentinel of that row which it matches.
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

// renderError turns an error into a reply.
func (a *API) renderError(r *request, err error) reply {
	p, matched := a.problems.find(err)
	if p.effect == effectUnknown && r.Context().Err() != nil {
		p = a.problems.gone
		if errors.Is(context.Cause(r.Context()), httpserver.ErrStopping) { // the client is still there
			p, _ = a.problems.find(order.ErrUnavailable)
		}
	}
	body := append(r.scratch[:0], p.prefix...)
	if p.traits&showDetail != 0 {
		if detail := detailOf(err, matched); detail != "" {
			quoted, _ := json.Marshal(detail) // a string always marshals
			body = append(append(body, `,"detail":`...), quoted...)
		}
	}
	if work, ok := errors.AsType[*room.WorkError](err); ok {
		body = fmt.Appendf(body, `,"work_bits":%d,"commitment":%q`, work.Bits, work.Commitment)
	}
	if early, ok := errors.AsType[*room.NotOpenError](err); ok {
		body = append(early.OpensAt.UTC().AppendFormat(append(body, `,"opens_at":"`...), time.RFC3339Nano), '"')
	}
	if state, ok := errors.AsType[*order.StateError](err); ok {
		body = append(append(append(body, `,"order_status":"`...), state.Status...), '"')
	}
	if invalid, ok := errors.AsType[*voucher.FieldError](err); ok {
		body = fmt.Appendf(body, `,"field":%q`, invalid.Field) // of letters, dots and brackets
	}
	if few, ok := errors.AsType[*voucher.TooFewError](err); ok {
		body = fmt.Appendf(body, `,"most":%d`, few.Most)
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

// retryIn is the number of seconds for Retry-After: until the lease of the lock's holder ends, or until the user's
// quota allows another request, if that is known.
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

// detailOf is the text of an error after that of the sentinel that it wraps.
func detailOf(err, sentinel error) string {
	_, detail, _ := strings.Cut(err.Error(), sentinel.Error()+": ")
	return detail
}

// invalid returns an [errInvalid] with a text for the client.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errInvalid}, args...)...)
}

// unavailable returns an [order.ErrUnavailable] with the failed step and its cause.
func unavailable(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", order.ErrUnavailable, doing, err)
}

// statusClass returns the class of a status: "2xx" for 201.
func statusClass(status int) string { return strconv.Itoa(status/100) + "xx" }
