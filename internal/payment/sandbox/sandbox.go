package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	provider "seckill/internal/payment"
	"seckill/internal/samesite"
)

// Config configures a [Sandbox].
type Config struct {
	// Addr is where to serve, host:port.
	Addr string
	// Listener serves in place of one at Addr, and Dial reaches the receiver of events; nil means TCP.
	Listener net.Listener
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	// PublicURL is how browsers reach it; "" means http:// and the address. Pages are served to requests whose Host is
	// that of PublicURL or Addr, a loopback name or address, or the address that was connected to.
	PublicURL string
	// APIKey is what the calls are authorized with, Secrets are what the webhooks are signed with.
	APIKey  string
	Secrets []string
	// WebhookURL is where events are delivered; see also [Sandbox.SetWebhookURL].
	WebhookURL string
	// File keeps the state; "" means that nothing is kept.
	File      string
	Behaviour Behaviour
	Log       *slog.Logger
}

// Sandbox is a payment provider that moves no money.
type Sandbox struct {
	cfg      Config
	books    *books
	webhooks *provider.Webhooks
	listener net.Listener
	http     *http.Client
	url      string
	receiver atomic.Pointer[string]
	pages    *template.Template
	site     *samesite.Guard
	running  atomic.Bool
}

// Open listens and reads the file. [Sandbox.Run] serves, or [Sandbox.Close] ends it.
func Open(ctx context.Context, cfg Config) (*Sandbox, error) {
	if cfg.APIKey == "" {
		return nil, errors.New("sandbox: there is no API key")
	}
	if err := cfg.Behaviour.Validate(); err != nil {
		return nil, err
	}
	webhooks, err := provider.NewWebhooks(cfg.Secrets...)
	if err != nil {
		return nil, err
	}
	pages, err := template.New("").Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Addr); err != nil {
			return nil, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.Dial != nil {
		transport.DialContext = cfg.Dial
	}
	s := &Sandbox{cfg: cfg, webhooks: webhooks, listener: listener, url: cfg.PublicURL, pages: pages, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.url == "" {
		s.url = "http://" + listener.Addr().String()
	}
	s.site = samesite.New(hosts(cfg)...)
	s.SetWebhookURL(cfg.WebhookURL)
	s.books, err = openBooks(cfg.File, time.Now, func(id string) string { return s.url + "/pay/" + id }, cfg.Behaviour)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// hosts are the host names of the configuration.
func hosts(cfg Config) (names []string) {
	if host, _, err := net.SplitHostPort(cfg.Addr); err == nil && host != "" {
		names = append(names, host)
	}
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	return names
}

// URL is where the sandbox serves.
func (s *Sandbox) URL() string { return s.url }

// SetWebhookURL says where events are delivered from now on; "" holds them back.
func (s *Sandbox) SetWebhookURL(address string) {
	s.receiver.Store(&address)
	if s.books != nil {
		s.books.wake()
	}
}

func (s *Sandbox) target() string { return *s.receiver.Load() }

// SetBehaviour changes the switches. What has happened already keeps its own.
func (s *Sandbox) SetBehaviour(b Behaviour) error {
	if err := b.Validate(); err != nil {
		return err
	}
	return s.books.setBehaviour(b)
}

// finishWithin is how long calls may go on when Run ends.
const finishWithin = 5 * time.Second

// Run serves and delivers until ctx ends, and then closes the sandbox.
func (s *Sandbox) Run(ctx context.Context) error {
	s.running.Store(true)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	serving, inner := errgroup.WithContext(ctx)
	server.BaseContext = func(net.Listener) context.Context { return inner } // ends the waits of slow answers
	serving.Go(func() error {
		if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	serving.Go(func() error { return s.deliver(inner) })
	serving.Go(func() error {
		<-inner.Done()
		finishing, cancel := context.WithTimeout(context.WithoutCancel(inner), finishWithin)
		defer cancel()
		if err := server.Shutdown(finishing); err != nil {
			return server.Close()
		}
		return nil
	})
	err := serving.Wait()
	s.http.CloseIdleConnections()
	if err = errors.Join(err, s.books.close()); err != nil {
		return fmt.Errorf("payment sandbox: %w", err)
	}
	return nil
}

// Close ends a sandbox that was not run. One that was run has closed itself.
func (s *Sandbox) Close() error {
	if s.running.Load() {
		return nil
	}
	return errors.Join(s.listener.Close(), s.books.close())
}

// authorized reports whether a request has the API key.
func (s *Sandbox) authorized(r *http.Request) bool {
	want, got := sha256.Sum256([]byte("Bearer "+s.cfg.APIKey)), sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
