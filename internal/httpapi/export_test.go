package httpapi

import (
	"context"
	"net/http"
)

// Work is a handler that a test puts a guard around. body reads the request's.
type Work func(ctx context.Context, body func() ([]byte, error)) error

// AddRoute adds a route to those of the table, for users or for anyone. It answers
// with 200 and {} where work returns nil.
func (a *API) AddRoute(method, path string, forUser bool, work Work, guards ...Guard) error {
	rt := route{method: method, path: path, guards: guards, handler: func(ctx context.Context, r *request) (reply, error) {
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

// GuardOrders adds a second address under which orders are placed, behind guards.
func (a *API) GuardOrders(path string, guards ...Guard) error {
	return a.handle(a.public, route{http.MethodPost, path, user, a.placeOrder, guards})
}
