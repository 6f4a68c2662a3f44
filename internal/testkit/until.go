package testkit

import "time"

const (
	// untilLimit only ends the wait for what never happens. A busy machine may take its time.
	untilLimit = 2 * time.Minute
	// untilEvery is the time between two looks. Servers and other processes do not announce most of what a test waits for.
	untilEvery = 5 * time.Millisecond
)

// Until waits until condition reports true. It fails t with what was awaited if that takes more than two minutes.
func Until(t TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(untilLimit); !condition(); time.Sleep(untilEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", untilLimit, what)
		}
	}
}
