package forupdate_test

import (
	"errors"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/forupdate"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestNewNeedsDatabase(t *testing.T) {
	if _, err := forupdate.New(nil, forupdate.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}
