package simulate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
)

// A server and its client meet in one bubble: a header that does not end costs no time, and the deadline for it is exact.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simulate.Listen()
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			simulate.Sleep(time.Minute)
			_, _ = io.Copy(w, r.Body)
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		client := &http.Client{Transport: &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}}
		began := time.Now()
		resp, err := client.Post("http://server", "text/plain", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Body.Close() != nil || time.Since(began) != time.Minute {
			t.Errorf("answered after %v, %v", time.Since(began), err)
		}
		silent, err := l.Dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 10*time.Second {
			t.Errorf("a client that says nothing is left after %v: %v", time.Since(began), err)
		}
		if err := server.Shutdown(t.Context()); err != nil || !errors.Is(<-served, http.ErrServerClosed) {
			t.Error(err)
		}
		if _, err := l.Dial(t.Context(), "tcp", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("nobody listens: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := simulate.Listen().Connect(gone, silent); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody accepts: %v", err)
		}
	})
}
