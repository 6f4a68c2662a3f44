package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"seckill/internal/order"
)

// maxFollowed is the most orders that one request may follow.
const maxFollowed = 20

// followed is an order that a client follows, in the state that the client knows.
type followed struct {
	id    int64
	known order.Status
}

// followedJSON is the answer to a client that follows orders: those that there are, in the order in which it has named
// them.
type followedJSON struct {
	Orders []detailedJSON `json:"orders"`
}

// queryFollowed reads ?watch=ID:STATE,ID:STATE; nil if it is not given.
func (r *request) queryFollowed() (all []followed, err error) {
	query, err := r.query()
	if err != nil || !query.Has("watch") {
		return nil, err
	}
	for one := range strings.SplitSeq(query.Get("watch"), ",") {
		id, known, _ := strings.Cut(one, ":")
		f := followed{known: order.Status(known)}
		if f.id, err = parseID("watch", id); err != nil {
			return nil, err
		}
		if !slices.Contains(order.Statuses(), f.known) {
			return nil, invalid("watch has %q; an order's id and the state that is known of it, such as 4711:pending", clip(one))
		}
		if all = append(all, f); len(all) > maxFollowed {
			return nil, invalid("watch has more than %d orders", maxFollowed)
		}
	}
	return all, nil
}

// followOrders is GET /api/v1/orders?watch=. With ?wait= it waits until one of the orders has another state than the
// client knows. A page so has one request for all orders of its buyer: a browser opens six connections to one origin.
func (a *API) followOrders(ctx context.Context, r *request, all []followed) (reply, error) {
	wait, err := r.queryWait()
	if err != nil {
		return reply{}, err
	}
	if err := a.allowLookup(r.user); err != nil {
		return reply{}, err
	}
	orders, changed, err := a.lookAt(ctx, r.user, all)
	if err != nil {
		return reply{}, err
	}
	var retryAfter []string
	if wait > 0 && !changed {
		if r.enter(a.limits.waits) != nil { // answer with the current states
			retryAfter = a.problems.seconds[1]
		} else {
			r.deadline.Extend(wait)
			if err := a.awaitAny(ctx, orders, wait); err != nil {
				return reply{}, err
			}
			if orders, _, err = a.lookAt(ctx, r.user, all); err != nil {
				return reply{}, err
			}
		}
	}
	out := followedJSON{Orders: []detailedJSON{}}
	for _, o := range orders {
		d, err := a.detailed(ctx, o)
		if err != nil {
			return reply{}, err
		}
		out.Orders = append(out.Orders, d)
	}
	answer, err := a.render(http.StatusOK, out)
	answer.retryAfter = retryAfter
	return answer, err
}

// lookAt returns those of the orders that there are, and whether one of them is not as the client knows it.
func (a *API) lookAt(ctx context.Context, user int64, all []followed) (orders []order.Order, changed bool, err error) {
	for _, f := range all {
		o, err := a.deps.Orders.Order(ctx, user, f.id)
		switch {
		case errors.Is(err, order.ErrNotFound):
			changed = true
		case err != nil:
			return nil, false, err
		default:
			changed = changed || o.Status != f.known || !o.Status.Changes()
			orders = append(orders, o)
		}
	}
	return orders, changed, nil
}

// awaitAny waits until one of the orders has another state, or the limit has passed. A stop of the service ends the
// wait.
func (a *API) awaitAny(ctx context.Context, orders []order.Order, limit time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)()
	ended := make(chan error, len(orders))
	for _, o := range orders {
		await := a.deps.Lifecycle.Await
		if o.Status == order.Pending {
			await = a.deps.Orders.Await
		}
		go func() { ended <- await(waiting, o, limit) }()
	}
	var first error
	for i := range orders {
		err := <-ended
		if i == 0 {
			first = err
			cancel() // the others
		}
	}
	if a.waits.Err() != nil {
		return nil
	}
	return first
}
