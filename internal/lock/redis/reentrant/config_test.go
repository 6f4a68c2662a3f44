package reentrant_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
)

func TestConfig(t *testing.T) {
	if err := (reentrant.Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults are invalid: %v", err)
	}
	wrong := map[string]reentrant.Config{
		"a renewal as long as the lease": {WatchdogTimeout: time.Second, RenewEvery: time.Second},
		"a retry as long as the renewal": {WatchdogTimeout: 3 * time.Second, RetryEvery: time.Second},
		"a negative retry":               {RetryEvery: -1},
		"a lease below a ms":             {WatchdogTimeout: time.Microsecond},
		"a lease of a day":               {WatchdogTimeout: 24 * time.Hour},
		"a negative command timeout":     {CommandTimeout: -1},
		"a negative number of pipelines": {Pipelines: -1},
	}
	for what, config := range wrong {
		if _, err := reentrant.New(nil, config); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: New = %v, want ErrInvalid", what, err)
		}
	}
	if _, err := reentrant.New(nil, reentrant.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New without a client = %v, want ErrInvalid", err)
	}
}
