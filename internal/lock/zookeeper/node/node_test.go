package node_test

import (
	"errors"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/lock/zookeeper/node"
)

func TestMain(m *testing.M) { zkstore.Main(m, open) }

func TestNewNeedsClient(t *testing.T) {
	if _, err := node.New(nil, node.Config{}); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "zk-node") {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}
