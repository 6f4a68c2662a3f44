package harness

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// pollEvery is how often the balancer checks the readiness of its backends.
const pollEvery = 200 * time.Millisecond

// Balancer is a reverse proxy in front of several instances. It distributes requests over the backends that were ready
// at the last check, and keeps connections to them open. It retries nothing by itself. Its transport, as any of
// net/http, repeats a request only if nothing of it was written or if it is idempotent.
type Balancer struct {
	Backends []*Backend
	next     atomic.Uint64
	Served   atomic.Int64 // requests that a backend answered
	Refused  atomic.Int64 // of these, with 5xx
	Failed   atomic.Int64 // requests that got no answer from their backend
}

// Backend is an instance behind a [Balancer].
type Backend struct {
	url   *url.URL
	proxy *httputil.ReverseProxy
	Ready atomic.Bool
}

// NewBalancer polls the backends until the test ends.
func NewBalancer(t *testing.T, urls ...string) *Balancer {
	t.Helper()
	b := &Balancer{}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	for _, address := range urls {
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.Transport, proxy.ErrorLog = transport, log.New(io.Discard, "", 0)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			b.Failed.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		}
		proxy.ModifyResponse = func(resp *http.Response) error {
			b.Served.Add(1)
			if resp.StatusCode >= http.StatusInternalServerError {
				b.Refused.Add(1)
			}
			return nil
		}
		b.Backends = append(b.Backends, &Backend{url: target, proxy: proxy})
	}
	polling, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	b.poll(polling)
	go func() {
		defer close(done)
		for tick := time.NewTicker(pollEvery); polling.Err() == nil; <-tick.C {
			b.poll(polling)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return b
}

func (b *Balancer) poll(ctx context.Context) {
	for _, to := range b.Backends {
		to.Ready.Store(Ready(ctx, to.url.String()))
	}
}

// Ready asks an instance whether it is ready.
func Ready(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// ServeHTTP forwards a request to the next ready backend.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first := b.next.Add(1)
	for i := range uint64(len(b.Backends)) {
		if to := b.Backends[(first+i)%uint64(len(b.Backends))]; to.Ready.Load() {
			to.proxy.ServeHTTP(w, r)
			return
		}
	}
	b.Failed.Add(1)
	w.WriteHeader(http.StatusServiceUnavailable)
}
