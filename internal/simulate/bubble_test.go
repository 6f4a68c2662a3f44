package simulate_test

import (
	"os/exec"
	"strings"
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
				time.Sleep(24 * time.Hour)
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

// A program that is no test has bubbles, too, and prints nothing of package testing.
func TestBubbleOutsideATest(t *testing.T) {
	out, err := exec.Command("go", "run", "./testdata/bubble").CombinedOutput()
	fail.NowIf(t, err, "%s", out)
	fail.Unequal(t, strings.TrimSpace(string(out)), "1h0m0s", "output")
}
