package readiness

import (
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
