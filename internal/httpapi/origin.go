package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"seckill/internal/samesite"
)

// errCrossSite says that a page of another site may have made the user's browser send the request.
var errCrossSite = errors.New("httpapi: foreign request")

// checkSite returns an [errCrossSite] for a request that lab mode refuses, see package samesite. Outside lab mode every
// call that matters needs a token, which a page of another site does not have.
func (a *API) checkSite(r *http.Request) error {
	if !a.cfg.Lab {
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

// pageOrigin returns the origin of the page that has sent a request, if it is a page of this server; "" otherwise.
func pageOrigin(r *http.Request) string {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || origin.Host == "" || origin.Host != r.Host || origin.Scheme != "https" && origin.Scheme != "http" {
		return ""
	}
	return origin.Scheme + "://" + origin.Host
}

// hostOrigin returns the origin that the client of a request has asked, as far as the request tells.
func hostOrigin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// sameSite returns next behind a check, for handlers that do not go through adapt.
func (a *API) sameSite(check func(*http.Request) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		out := a.renderError(&request{Request: r, id: a.ids.Of(r)}, err)
		w.Header()["Content-Type"] = out.contentType
		w.WriteHeader(out.status)
		_, _ = w.Write(out.body) // the client may be gone
	})
}

// checkRead returns an [errCrossSite] for what a page of another site makes an operator's browser ask for. It is for
// handlers whose GET costs something or tells secrets, also outside lab mode: the debug listener asks for no token.
func (a *API) checkRead(r *http.Request) error {
	switch err := a.site.CheckRead(r); {
	case errors.Is(err, samesite.ErrHost):
		return fmt.Errorf("%w: Host is %q; on loopback, profiles have a loopback name or address", errCrossSite, clip(r.Host))
	case err != nil:
		return fmt.Errorf("%w: a page of another site has sent this; open the address directly", errCrossSite)
	}
	return nil
}
