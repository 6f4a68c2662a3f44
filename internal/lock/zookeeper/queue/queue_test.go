package queue_test

import (
	"errors"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/lock/zookeeper/queue"
)

func TestMain(m *testing.M) { zkstore.Main(m, open) }

func TestNewNeedsClient(t *testing.T) {
	if _, err := queue.New(nil, queue.Config{}); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "zk-queue") {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}
