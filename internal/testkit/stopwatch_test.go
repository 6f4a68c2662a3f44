//go:build unix

package testkit_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/testkit"
)

func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a machine that is never late
		s := testkit.StartStopwatch()
		time.Sleep(time.Second)
		if ran := s.Stop(); ran != time.Second {
			t.Errorf("a second was measured as %v", ran)
		}
	})
}

// A paused process does not run.
func TestStopwatchOfAPausedProcess(t *testing.T) {
	const pause = 400 * time.Millisecond
	child := testkit.Start(t, testkit.Command{
		Path: os.Args[0], Args: []string{"-test.run=^TestStopwatchInAChild$"}, Env: []string{childScenario + "=stopwatch"}})
	child.WaitLine(t, "started")
	child.Pause()
	time.Sleep(pause)
	child.Resume()
	stood, err := time.ParseDuration(child.WaitLine(t, `stood still for (\S+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	if stood < pause-20*time.Millisecond {
		t.Errorf("of a pause of %v it saw %v", pause, stood)
	}
}

// TestStopwatchInAChild runs as a child of TestStopwatchOfAPausedProcess; by itself it does nothing.
func TestStopwatchInAChild(t *testing.T) {
	if os.Getenv(childScenario) != "stopwatch" {
		return
	}
	resumed := testkit.NotifyResumed()
	began, s := time.Now(), testkit.StartStopwatch()
	fmt.Println("started")
	<-resumed
	time.Sleep(50 * time.Millisecond) // its next look
	took := time.Since(began)
	fmt.Println("stood still for", took-s.Stop())
}
