package httpapi

import (
	"context"
	"fmt"
	"net/http"
)

// Operations returns the rows of the route table, as "GET /api/v1/orders/:id".
func (a *API) Operations() (all []string) {
	for _, rt := range a.routes() {
		all = append(all, rt.method+" "+rt.path)
	}
	return all
}

// Problems returns the rows of the problem table, as "409 busy".
func Problems() (all []string) {
	for _, p := range table() {
		all = append(all, fmt.Sprint(p.status, " ", p.code))
	}
	return all
}

// Work is a handler of a test. body reads the body of the request.
type Work func(ctx context.Context, body func() ([]byte, error)) error

// AddRoute adds a route to the route table, for users or for anyone. It answers with 200 and {} if work returns nil.
func (a *API) AddRoute(method, path string, forUser bool, work Work) error {
	return a.AddGuarded(method, path, forUser, work, nil)
}

// AddGuarded adds a route with a guard. nil is none.
func (a *API) AddGuarded(method, path string, forUser bool, work Work, g *Guard) error {
	rt := route{method: method, path: path, guard: g, handler: func(ctx context.Context, r *request) (reply, error) {
		if err := work(ctx, r.readJSON); err != nil {
			return reply{}, err
		}
		return a.render(http.StatusOK, struct{}{})
	}}
	if forUser {
		rt.who = user
	}
	return a.handle(a.public, rt)
}

// GuardOrders adds a second address for placing orders, with a guard.
func (a *API) GuardOrders(path string, g Guard) error {
	return a.handle(a.public, route{http.MethodPost, path, user, a.placeOrder, &g})
}

// Streams returns the number of open streams of live figures.
func (a *API) Streams() int64 { return a.live.streams.Load() }

// KeepSale is how long a sale that nobody watches is known, MaxKept how many of them are.
const (
	KeepSale = keepSale
	MaxKept  = maxKept
)

// The limits on the requests for /metrics.
const (
	MaxScrapes           = maxScrapes
	MaxScrapesPerAddress = maxScrapesPerAddress
)

// Sales returns the number of sales whose orders are counted.
func (a *API) Sales() int64 { return a.live.known.Load() }

// FillStreams makes the number of streams the greatest that is allowed, until free is called.
func (a *API) FillStreams() (free func()) {
	n := maxStreams - a.live.streams.Load()
	a.live.streams.Add(n)
	return func() { a.live.streams.Add(-n) }
}
