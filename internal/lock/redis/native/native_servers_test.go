package native_test

import (
	"errors"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The redis-server that is installed is older than 8.4 and is refused, or it is not and is used.
func TestOnTheInstalledRedis(t *testing.T) {
	client := testkit.NewRedis(t).Client(t)
	_, err := open(t, client).Acquire(t.Context(), "seat", lock.Options{})
	if client.Do(t.Context(), "DELEX", "none", "IFEQ", "x").Err() == nil {
		fail.If(t, err)
		return
	}
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "DELEX") {
		t.Errorf("Acquire = %v", err)
	}
	fail.Unequal(t, client.DBSize(t.Context()).Val(), 0, "keys")
}
