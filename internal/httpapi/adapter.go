package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/httpserver"
	"seckill/internal/voucher"
)

// The deadlines of a request's work.
const (
	// readingTimeout is the deadline of a request that only reads. A wait that the client asks for is added to it.
	readingTimeout = 10 * time.Second
	// requestTimeout is the deadline of all others: the longest lock wait that a policy may ask for, plus time for the
	// work.
	requestTimeout = voucher.MaxLockWait + 10*time.Second
)

func timeoutOf(method string) time.Duration {
	if method == http.MethodGet || method == http.MethodHead {
		return readingTimeout
	}
	return requestTimeout
}

// handler answers one request with a reply, or with an error that [problems] turns into one.
type handler func(ctx context.Context, r *request) (reply, error)

// request is a request that is being answered.
type request struct {
	*http.Request
	gin *gin.Context
	// id identifies the request in logs and problems.
	id string
	// user is the caller; 0 if the route needs no user.
	user int64
	// slot is the limit in which the request counts as one of its client, see limited; nil: in none.
	slot   *httpserver.Limiter
	client uint64

	// Embedded here, since every request needs them: that saves an allocation each.
	deadline httpserver.Deadline
	headers  [2]string
	scratch  [192]byte // buffer for the reply's body
}

// reply is an answer to be sent.
type reply struct {
	status      int
	contentType []string
	location    string
	etag        string   // "" for none
	retryAfter  []string // header value; nil for none
	body        []byte
	// kept is the body as it is kept for the next client; tag its ETag, if the client may keep it too, and zipped says
	// that the body is compressed.
	kept   *keptBody
	tag    string
	zipped bool
	// page answers instead of the other fields but outcome; nil for none.
	page http.Handler
	// replayed says that this is an earlier answer to the same idempotency key.
	replayed bool
	// outcome is the reply's label in the metrics, from a closed list.
	outcome string

	// problem is set if the reply is a problem. err is then its cause.
	problem *problem
	err     error
}

// adapt turns a handler into a gin handler. Everything that is the same for every request happens here.
func (a *API) adapt(route *routeMetrics, who access, h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		a.metrics.inFlight.Add(1)
		defer a.metrics.inFlight.Add(-1)

		r := &request{
			Request: c.Request, gin: c, id: a.ids.Of(c.Request),
			deadline: httpserver.Deadline{Parent: c.Request.Context(), At: start.Add(timeoutOf(c.Request.Method))},
		}
		defer r.deadline.End()
		out := a.answer(&r.deadline, r, who, h)
		if out.page != nil {
			out.status = sendPage(c.Writer, r, out.page)
		} else {
			a.send(c.Writer, r, out)
		}

		took := time.Since(start)
		a.metrics.observe(route, out, took)
		if route.orders {
			a.live.note(r, out.outcome, took)
		}
		a.logAccess(r, out, took)
	}
}

// answer runs the handler and always returns a reply, even if the handler panics.
func (a *API) answer(ctx context.Context, r *request, who access, h handler) (out reply) {
	defer func() {
		if p := recover(); p != nil {
			a.metrics.panics.Inc()
			out = a.renderError(r, &panicError{value: p, stack: debug.Stack()})
		}
	}()
	if err := a.checkSite(r.Request); err != nil {
		return a.renderError(r, err)
	}
	if err := a.authenticate(r, who); err != nil {
		return a.renderError(r, err)
	}
	out, err := h(ctx, r)
	if err != nil {
		return a.renderError(r, err)
	}
	return out
}

// send writes the reply. The header keys are in canonical form and most values are shared, which saves an allocation
// each.
func (a *API) send(w gin.ResponseWriter, r *request, out reply) {
	h := w.Header()
	h["Content-Type"] = out.contentType
	r.headers = [...]string{r.id, out.location}
	h["X-Request-Id"] = r.headers[0:1:1]
	if r.Method != http.MethodPost { // answers to POST are not cached anyway
		h["Cache-Control"] = a.problems.noStore
		h["X-Time"] = []string{strconv.FormatInt(a.deps.Now().UnixMilli(), 10)} // Date has whole seconds
	}
	if out.tag != "" {
		h["Etag"], h["Cache-Control"], h["Vary"] = []string{out.tag}, []string{"no-cache"}, []string{"Accept-Encoding"}
	}
	if out.zipped {
		h["Content-Encoding"] = []string{"gzip"}
	}
	if out.location != "" {
		h["Location"] = r.headers[1:2:2]
	}
	if out.etag != "" {
		h["Etag"] = []string{out.etag}
	}
	if out.replayed {
		h["Idempotency-Replayed"] = []string{"true"}
	}
	if out.problem != nil && out.problem.traits&closeConnection != 0 {
		h["Connection"] = a.problems.closeConnection
	}
	if out.retryAfter != nil {
		h["Retry-After"] = out.retryAfter
	}
	if out.status == http.StatusUnauthorized {
		h["Www-Authenticate"] = a.problems.challenge
	}
	w.WriteHeader(out.status)
	if out.status == http.StatusNotModified {
		w.WriteHeaderNow()
		return
	}
	// An error means that the client is gone.
	_, _ = w.Write(out.body)
}

// panicError is the error of a handler that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap does not return the value: a handler that panics with a sentinel error does not mean that error's row of the
// table.
func (e *panicError) Unwrap() error { return errPanic }
