package service

import (
	"errors"
	"fmt"
	"time"
)

// The defaults and bounds of a shutdown.
const (
	// defaultShutdownDelay is longer than the time in which a load balancer checks readiness twice. An
	// embedded service has no load balancer and no delay.
	defaultShutdownDelay   = 5 * time.Second
	defaultShutdownTimeout = 10 * time.Second
	maxShutdown            = 10 * time.Minute
	// closing is how long a stop may take beyond the delay and the timeout: to persist what was accepted, and to close
	// the stores and the log.
	closing = 30 * time.Second
)

// stopLimit is when a stop has failed.
func (c Config) stopLimit() time.Duration { return c.ShutdownDelay + c.ShutdownTimeout + closing }

func stopSettings() []setting {
	return []setting{
		{name: "shutdown-delay", arg: "duration", usage: fmt.Sprintf("how long the service goes on serving after it was told to stop, while /readyz already says no, 0s to %v (default %v; embedded: 0s)", maxShutdown, defaultShutdownDelay),
			set: func(c *Config, v string) (err error) { c.ShutdownDelay, err = parseShutdown(v, 0); return err }},
		{name: "shutdown-timeout", arg: "duration", usage: fmt.Sprintf("how long requests may take to finish after that before they are cancelled, 100ms to %v (default %v)", maxShutdown, defaultShutdownTimeout),
			set: func(c *Config, v string) (err error) {
				c.ShutdownTimeout, err = parseShutdown(v, 100*time.Millisecond)
				return err
			}},
	}
}

func parseShutdown(v string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, errors.New("want a duration, such as 0s or 5s")
	}
	if d < least || d > maxShutdown {
		return 0, fmt.Errorf("want %v to %v", least, maxShutdown)
	}
	return d, nil
}
