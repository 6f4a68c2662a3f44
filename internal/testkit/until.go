package testkit

import "time"

const (
	// untilLimit only ends the wait for what never happens. A busy machine may take its time.
	untilLimit = 2 * time.Minute
	// untilEvery and untilAtMost bound the time between two looks. Servers and other processes do not announce most of
	// what a test waits for.
	untilEvery, untilAtMost = 5 * time.Millisecond, 100 * time.Millisecond
)

// Until waits until condition reports true. It fails t with what was awaited if that takes more than two minutes. The
// longer it waits, the less often it looks: tests run beside others, and a look may cost a request.
func Until(t TB, what string, condition func() bool) {
	t.Helper()
	for begun := time.Now(); !condition(); {
		waited := time.Since(begun)
		if waited > untilLimit {
			t.Fatalf("not within %v: %s", untilLimit, what)
		}
		time.Sleep(min(max(waited/30, untilEvery), untilAtMost))
	}
}
