package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/voucher"
)

// requestTimeout is the deadline of every request's work: the longest wait for a
// lock that a policy may ask for, and time to do something with it.
const requestTimeout = voucher.MaxLockWait + 10*time.Second

// handler answers one request: with a reply, or with an error that [problems]
// turns into one.
type handler func(ctx context.Context, r *request) (reply, error)

// request is a request on its way.
type request struct {
	*http.Request
	gin *gin.Context
	// id is the request's own, for logs and problems.
	id string
	// user is who asks; 0 where that does not matter.
	user int64
	// body is what was read of the body; nil: nothing was yet.
	body []byte

	// What every request needs once lies here, which saves an allocation each.
	deadline deadline
	headers  [2]string
	scratch  [192]byte // room for the reply's body
}

// reply is what is to be sent.
type reply struct {
	status      int
	contentType []string
	location    string
	retryAfter  []string // header value; nil for none
	body        []byte
	// replayed: an earlier answer to the same idempotency key.
	replayed bool
	// outcome is the reply's name in the metrics, out of a closed list.
	outcome string

	// problem is set where the reply is one, err is then its cause.
	problem *problem
	err     error
}

// adapt makes a gin handler of ours. Everything that is the same for every
// request happens here, once.
func (a *API) adapt(route *routeMetrics, who access, h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		a.metrics.inFlight.Add(1)
		defer a.metrics.inFlight.Add(-1)

		r := &request{
			Request: c.Request, gin: c, id: a.ids.of(c.Request),
			deadline: deadline{parent: c.Request.Context(), at: start.Add(requestTimeout)},
		}
		defer r.deadline.end()
		out := a.answer(&r.deadline, r, who, h)
		a.send(c.Writer, r, out)

		took := time.Since(start)
		a.metrics.observe(route, out, took)
		a.logAccess(r, out, took)
	}
}

// answer runs the handler. Whatever happens in there, there is a reply.
func (a *API) answer(ctx context.Context, r *request, who access, h handler) (out reply) {
	defer func() {
		if p := recover(); p != nil {
			a.metrics.panics.Inc()
			out = a.refuse(r, &panicError{value: p, stack: debug.Stack()})
		}
	}()
	if err := a.authenticate(r, who); err != nil {
		return a.refuse(r, err)
	}
	out, err := h(ctx, r)
	if err != nil {
		return a.refuse(r, err)
	}
	return out
}

// send writes the reply. The header's keys are in canonical form and most values
// are shared, which saves an allocation each.
func (a *API) send(w gin.ResponseWriter, r *request, out reply) {
	h := w.Header()
	h["Content-Type"] = out.contentType
	r.headers = [...]string{r.id, out.location}
	h["X-Request-Id"] = r.headers[0:1:1]
	if r.Method != http.MethodPost { // whose answers nobody keeps anyway
		h["Cache-Control"] = a.problems.noStore
	}
	if out.location != "" {
		h["Location"] = r.headers[1:2:2]
	}
	if out.replayed {
		h["Idempotency-Replayed"] = []string{"true"}
	}
	if out.retryAfter != nil {
		h["Retry-After"] = out.retryAfter
	}
	if out.status == http.StatusUnauthorized {
		h["Www-Authenticate"] = a.problems.challenge
	}
	w.WriteHeader(out.status)
	// A client that has gone away does not read what could be said about it.
	_, _ = w.Write(out.body)
}

// panicError is what a handler died of.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap never gives the value: whoever panics with a sentinel did not mean its row
// of the table.
func (e *panicError) Unwrap() error { return errPanic }
