package pressure

import (
	"testing"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, testkit.Children{"hostile client": beHostile}) }
