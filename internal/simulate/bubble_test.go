package simulate_test

import (
	"testing"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Bubbles run side by side, in virtual time, and their clean-ups run.
func TestBubble(t *testing.T) {
	ended := make(chan time.Duration)
	for range 2 {
		go func() {
			began, took := time.Now(), time.Duration(0)
			simulate.Bubble(func(t *testing.T) {
				inside := time.Now()
				t.Cleanup(func() { took = time.Since(inside) })
				simulate.Sleep(24 * time.Hour)
			})
			if time.Since(began) > time.Hour {
				took = 0
			}
			ended <- took
		}()
	}
	for range 2 {
		fail.Unequal(t, <-ended, 24*time.Hour, "virtual time")
	}
}
