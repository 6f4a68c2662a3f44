package stores

import (
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
