package course

import (
	"testing"

	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	lockclient.MainIfChild()
	testbed.MainIfRedis()
	testkit.Main(m)
}
