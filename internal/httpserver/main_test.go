package httpserver_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"seckill/internal/httpserver"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// doing returns a handler that reads the body, works for up to a minute, and answers with 201.
func doing(work func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		d := httpserver.Deadline{Parent: r.Context(), At: time.Now().Add(time.Minute)}
		defer d.End()
		if work(&d) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
}

// connect is a client of a server of its own, which does some work for each request.
func connect(t *testing.T, work func(context.Context) error) *servertest.Client {
	t.Helper()
	return servertest.Serve(t, httpserver.Config{}, doing(work)).Client()
}

func nothing(context.Context) error { return nil }

var aRequest = servertest.Header("POST", "/", "Content-Length: 0") + "\r\n"
