package idworker

import (
	"os"
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode))
	}
	testkit.Main(m)
}
