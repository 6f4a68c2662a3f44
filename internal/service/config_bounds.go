package service

import (
	"errors"
	"fmt"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/httpserver"
)

// defaultBounds are high enough for load tests from one address, and low enough to keep the memory that a hostile
// client can use far below that of the smallest recommended container.
func defaultBounds() httpapi.Limits {
	return httpapi.Limits{
		Orders: 10_000, OrdersPerUser: 64,
		Requests: 2_000, RequestsPerUser: 64, RequestsPerAddress: 512,
		Waits: 5_000, WaitsPerUser: 100,
		Connections: 16_384, ConnectionsPerAddress: 1_024,
	}
}

// maxBound is more than one process can handle.
const maxBound = 1_000_000

// defaultIdleTimeout is longer than that of common load balancers, which is 60 s: one that uses a connection in the
// moment in which this side closes it sees a failed request.
const defaultIdleTimeout = httpserver.DefaultIdleTimeout

func parseIdle(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, errors.New("want a duration, such as 75s or 2m")
	case d < time.Second || d > time.Hour:
		return 0, errors.New("want 1s to 1h")
	}
	return d, nil
}

func boundSettings() []setting {
	standard := defaultBounds()
	bound := func(name, what string, standard int, of func(*httpapi.Limits) *int) setting {
		return setting{
			name: name, arg: "number", usage: fmt.Sprintf("%s, 0 (any number) to %d (default %d)", what, maxBound, standard),
			set: func(c *Config, v string) (err error) {
				*of(&c.Bounds), err = parseNumber(v, 0, maxBound)
				return err
			},
		}
	}
	return []setting{
		{name: "idle-timeout", arg: "duration", usage: fmt.Sprintf("how long a connection without a request stays open, 1s to 1h (default %v); longer than that of the load balancer before it", defaultIdleTimeout),
			set: func(c *Config, v string) (err error) { c.IdleTimeout, err = parseIdle(v); return err }},
		bound("max-orders", "how many orders may be in progress at once", standard.Orders, func(l *httpapi.Limits) *int { return &l.Orders }),
		bound("max-orders-per-user", "how many orders of one user may be in progress at once", standard.OrdersPerUser, func(l *httpapi.Limits) *int { return &l.OrdersPerUser }),
		bound("max-requests", "how many requests that are not orders may be in progress at once", standard.Requests, func(l *httpapi.Limits) *int { return &l.Requests }),
		bound("max-requests-per-user", "how many requests of one user that are not orders may be in progress at once", standard.RequestsPerUser, func(l *httpapi.Limits) *int { return &l.RequestsPerUser }),
		bound("max-requests-per-address", "how many requests without a user may be in progress at once from one address", standard.RequestsPerAddress, func(l *httpapi.Limits) *int { return &l.RequestsPerAddress }),
		bound("max-waits", "how many requests may wait for the next state of an order (?wait=); others are answered at once", standard.Waits, func(l *httpapi.Limits) *int { return &l.Waits }),
		bound("max-waits-per-user", "how many requests of one user may wait for the next state of an order (?wait=)", standard.WaitsPerUser, func(l *httpapi.Limits) *int { return &l.WaitsPerUser }),
		bound("max-connections", "how many connections may be open", standard.Connections, func(l *httpapi.Limits) *int { return &l.Connections }),
		bound("max-connections-per-address", "how many connections may be open from one address that is not loopback; 0 behind a load balancer: no bound", standard.ConnectionsPerAddress, func(l *httpapi.Limits) *int { return &l.ConnectionsPerAddress }),
	}
}
