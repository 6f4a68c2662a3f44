package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"seckill/internal/samesite"
)

// errCrossSite says that a page of another site may have made the user's browser send the request.
var errCrossSite = errors.New("httpapi: foreign request")

// checkSite returns an [errCrossSite] for a request that lab mode refuses, see package samesite. Outside lab
// mode every call that matters needs a token, which a page of another site does not have.
func (a *API) checkSite(r *http.Request) error {
	if a.site == nil {
		return nil
	}
	switch err := a.site.Check(r); {
	case errors.Is(err, samesite.ErrHost):
		return fmt.Errorf("%w: Host is %q; in lab mode it is a loopback name or address, or one that SECKILL_LAB_HOSTS has", errCrossSite, clip(r.Host))
	case err != nil:
		return fmt.Errorf("%w: a page of another site has sent this; in lab mode such a request changes nothing", errCrossSite)
	}
	return nil
}

// refusePages refuses what a page of another site makes an operator's browser ask for, in front of a handler whose GET
// costs something or tells secrets. It applies outside lab mode too, since the debug listener asks for no token.
func (a *API) refusePages(next http.Handler) http.Handler {
	guard := samesite.New(a.cfg.LabHosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := guard.CheckRead(r); {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, samesite.ErrHost):
			a.refuseSite(w, r, fmt.Errorf("%w: Host is %q; on loopback, profiles have a loopback name or address", errCrossSite, clip(r.Host)))
		default:
			a.refuseSite(w, r, fmt.Errorf("%w: a page of another site has sent this; open the address directly", errCrossSite))
		}
	})
}

// requireSameSite refuses cross-site requests in front of a handler that does not go through adapt.
func (a *API) requireSameSite(next http.Handler) http.Handler {
	if a.site == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.checkSite(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		a.refuseSite(w, r, err)
	})
}

// refuseSite answers with an [errCrossSite].
func (a *API) refuseSite(w http.ResponseWriter, r *http.Request, err error) {
	out := a.renderError(&request{Request: r, id: a.ids.Of(r)}, err)
	w.Header()["Content-Type"] = out.contentType
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body) // the client may be gone
}
