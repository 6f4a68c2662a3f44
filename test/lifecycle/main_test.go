package lifecycle

import (
	"testing"

	"seckill/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
