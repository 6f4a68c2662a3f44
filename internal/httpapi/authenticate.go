package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

// access is who may call a route.
type access uint8

const (
	anyone access = iota
	user
	admin
)

// authenticate identifies the caller and checks that they may call the route.
func (a *API) authenticate(r *request, who access) error {
	switch who {
	case user:
		return a.authenticateUser(r)
	case admin:
		return a.authenticateAdmin(r)
	}
	return nil
}

// authenticateUser accepts a bearer token or, in lab mode, X-User-ID. A token that was sent must be valid even if none
// is needed.
func (a *API) authenticateUser(r *request) error {
	token, sent, err := bearer(r)
	if err != nil {
		return err
	}
	if sent {
		if r.user, err = a.deps.Tokens.Verify(token); err != nil {
			return unauthenticated("the token is not accepted")
		}
	}
	if !a.cfg.Lab {
		if !sent {
			return unauthenticated("send Authorization: Bearer and a token")
		}
		return nil
	}
	ids := r.Header["X-User-Id"]
	switch {
	case len(ids) == 0 && !sent:
		return unauthenticated("send X-User-ID, or Authorization: Bearer and a token")
	case len(ids) == 0:
		return nil
	case len(ids) > 1:
		return invalid("X-User-ID was sent %d times", len(ids))
	}
	id, err := parseID("X-User-ID", ids[0])
	if err != nil {
		return err
	}
	if sent && id != r.user {
		return invalid("X-User-ID and the token name different users")
	}
	r.user = id
	return nil
}

// authenticateAdmin accepts the admin token; in lab mode it accepts every request. A valid user token gets
// errForbidden.
func (a *API) authenticateAdmin(r *request) error {
	if a.cfg.Lab {
		return nil
	}
	token, sent, err := bearer(r)
	switch {
	case err != nil:
		return err
	case !sent:
		return unauthenticated("send Authorization: Bearer and the administrator's token")
	case a.adminKey != nil && subtle.ConstantTimeCompare(digestOf(token), a.adminKey) == 1:
		return nil
	}
	if _, err := a.deps.Tokens.Verify(token); err == nil {
		return errForbidden
	}
	return unauthenticated("the token is not accepted")
}

// bearer returns the token in the Authorization header (RFC 6750 §2.1).
func bearer(r *request) (token string, sent bool, err error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", true, unauthenticated("Authorization was sent more than once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true, unauthenticated("the scheme is Bearer")
	}
	return strings.TrimLeft(token, " "), true, nil
}

// digestOf hashes a token, so that tokens of any length are compared in constant time. It is nil for "".
func digestOf(token string) []byte {
	if token == "" {
		return nil
	}
	d := sha256.Sum256([]byte(token))
	return d[:]
}

func unauthenticated(why string) error {
	return fmt.Errorf("%w: %s", errUnauthenticated, why)
}
