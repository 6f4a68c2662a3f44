package service

import (
	"fmt"
	"time"
)

// The defaults and bounds of a shutdown.
const (
	// defaultShutdownDelay is longer than the time in which a load balancer checks readiness twice. An embedded service
	// has no load balancer and no delay.
	defaultShutdownDelay   = 5 * time.Second
	defaultShutdownTimeout = 10 * time.Second
	maxShutdown            = 10 * time.Minute
	// closing is how long a stop may take beyond the delay and the timeout: to persist what was accepted, and to close
	// the stores and the log.
	closing = 30 * time.Second
)

const shutdownExamples = "0s or 5s"

// stopLimit is when a stop has failed.
func (c Config) stopLimit() time.Duration { return c.ShutdownDelay + c.ShutdownTimeout + closing }

func stopSettings() []setting {
	return []setting{
		{name: "shutdown-delay", arg: "duration", usage: fmt.Sprintf("how long the service goes on serving after it was told to stop, while /readyz already says no, 0s to %v (default %v; embedded: 0s)", maxShutdown, defaultShutdownDelay),
			set: func(c *Config, v string) (err error) {
				c.ShutdownDelay, err = parseDuration(v, shutdownExamples, 0, maxShutdown)
				return err
			}},
		{name: "shutdown-timeout", arg: "duration", usage: fmt.Sprintf("how long requests may take to finish after that before they are cancelled, 100ms to %v (default %v)", maxShutdown, defaultShutdownTimeout),
			set: func(c *Config, v string) (err error) {
				c.ShutdownTimeout, err = parseDuration(v, shutdownExamples, 100*time.Millisecond, maxShutdown)
				return err
			}},
	}
}
