package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"seckill/internal/lab/byhand"
	"seckill/internal/lab/i18n"
	"seckill/internal/samesite"
)

// maxBody is the most that a request may have.
const maxBody = 64 << 10

// statuses maps errors to answers.
var statuses = []struct {
	err    error
	status int
	code   string
}{
	{errInvalid, http.StatusBadRequest, "invalid_request"},
	{byhand.ErrInvalid, http.StatusBadRequest, "invalid_request"},
	{errMissing, http.StatusConflict, "missing"},
	{errNotFound, http.StatusNotFound, "not_found"},
	{errBusy, http.StatusConflict, "busy"},
	{byhand.ErrNotNow, http.StatusConflict, "not_now"},
	{errIdle, http.StatusConflict, "idle"},
	{errForeign, http.StatusForbidden, "forbidden"},
	{errStopping, http.StatusServiceUnavailable, "unavailable"},
	{errStreams, http.StatusServiceUnavailable, "too_many_streams"},
}

// adapt makes a handler of a function that returns its error.
func adapt(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if err := h(w, r); err != nil {
			writeError(w, err)
		}
	})
}

// secure sets what a browser has to know of every answer. The page sets its own policy.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func writeError(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, "internal"
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status, code = s.status, s.code
			break
		}
	}
	w.Header().Del("Content-Disposition")
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	problem := map[string]any{"status": status, "code": code, "title": http.StatusText(status), "detail": err.Error()}
	if b, ok := errors.AsType[*byhand.Error](err); ok { // for the page, which says it in its own language
		problem["reason"], problem["values"] = b.Reason, b.Values
	}
	if t, ok := errors.AsType[textual](err); ok {
		problem["details"] = t.Text().All()
	}
	_ = json.NewEncoder(w).Encode(problem) // the client may be gone
}

// textual is an error that is told in all languages.
type textual interface {
	error
	Text() i18n.Text
}

// told is a text as an error.
type told struct{ text i18n.Text }

var _ textual = told{}

// Error implements error.
func (t told) Error() string { return t.text.String() }

// Text is the error in all languages.
func (t told) Text() i18n.Text { return t.text }

// reasoned is an error of a kind that says nothing but its cause: the page shows the text.
type reasoned struct{ kind, cause error }

func because(kind, cause error) error { return &reasoned{kind, cause} }

// Error implements error.
func (r *reasoned) Error() string { return r.cause.Error() }

// Unwrap is the kind and the cause.
func (r *reasoned) Unwrap() []error { return []error{r.kind, r.cause} }

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client may be gone
	return nil
}

// readJSON reads a request, which is one JSON value.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if err := checkJSON(r); err != nil {
		return err
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return because(errInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return because(errInvalid, errors.New("something follows the JSON value"))
	}
	return nil
}

// checkJSON refuses what a form of another site can send.
func checkJSON(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("%w: the content type is not application/json", errInvalid)
	}
	return nil
}

// body is an answer that does not change, compressed once.
type body struct{ plain, zipped []byte }

func newBody(v any) (*body, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &body{plain, zipped.Bytes()}, nil
}

// ServeHTTP implements [http.Handler].
func (b *body) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	data := b.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		data = b.zipped
	}
	_, _ = w.Write(data) // the client may be gone
}

// errForeign says that a page of another site may have made the user's browser send the request.
var errForeign = errors.New("a page of another site may have sent this")

// sameSite refuses what a page of another site can make a browser send, see package samesite.
func sameSite(next http.Handler) http.Handler {
	site := samesite.New() // loopback's own names
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site.Check(r) == nil {
			next.ServeHTTP(w, r)
			return
		}
		secure(w.Header())
		writeError(w, errForeign)
	})
}
