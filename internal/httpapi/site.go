package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
)

// staticRoute is the route of the files that the pages ask for. They have one row in the metrics.
const staticRoute = "/static/*file"

// paymentPages is the path below which the pages of an embedded payment provider are.
const paymentPages = "/sandbox"

// addPaymentPages adds those. They do not count as part of the API either.
func (a *API) addPaymentPages(e *gin.Engine) {
	if a.deps.PaymentPages == nil {
		return
	}
	const path = paymentPages + "/*page"
	pages := http.StripPrefix(paymentPages, a.deps.PaymentPages)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		h := a.limited(route{method: method, path: path, who: anyone}, func(context.Context, *request) (reply, error) {
			return reply{page: pages, outcome: "ok"}, nil
		})
		e.Handle(method, path, a.adapt(a.metrics.route(method, path), anyone, h))
	}
}

// addSite adds the pages for browsers. They are not part of the API: api/openapi.json does not have them. What a
// request may cost, and from where it is taken, holds for them as for all others.
func (a *API) addSite(e *gin.Engine) {
	if a.deps.Site == nil {
		return
	}
	for _, path := range append(a.deps.Site.Paths(), staticRoute) {
		rt := route{method: http.MethodGet, path: path, who: anyone}
		h := a.limited(rt, a.showPage)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			e.Handle(method, path, a.adapt(a.metrics.route(method, path), anyone, h))
		}
	}
}

// showPage answers with a page or one of its files.
func (a *API) showPage(_ context.Context, r *request) (reply, error) {
	if !a.deps.Site.Serves(r.URL) {
		return reply{}, errNoRoute
	}
	return reply{page: a.deps.Site, outcome: "ok"}, nil
}

// sendPage sends a page and returns the status.
func sendPage(w gin.ResponseWriter, r *request, page http.Handler) (status int) {
	w.Header().Set("X-Request-Id", r.id)
	page.ServeHTTP(w, r.Request)
	return w.Status()
}
