package row_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestNewRefusesInvalidConfig(t *testing.T) {
	if _, err := row.New(nil, row.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
	for _, config := range []row.Config{
		{WatchdogTimeout: -time.Second},
		{WatchdogTimeout: time.Second, RenewEvery: time.Second},
		{WatchdogTimeout: time.Second, RetryEvery: time.Second},
	} {
		if _, err := row.New(&sql.DB{}, config); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("New with %+v = %v, want ErrInvalid", config, err)
		}
	}
}
