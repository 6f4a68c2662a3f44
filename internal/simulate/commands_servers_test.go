package simulate_test

import (
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConditionalCommandsOfValkey(t *testing.T) {
	conditionalCommands(t, testkit.NewValkey(t).Client(t))
}
