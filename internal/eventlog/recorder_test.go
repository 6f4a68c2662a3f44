package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// output is a writer that keeps what was written and counts the calls.
type output struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	writes int
	err    error
}

func (w *output) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.writes++
	return w.buf.Write(p)
}

func (w *output) events(t *testing.T) []eventlog.Event {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	events, err := eventlog.Parse(w.buf.Bytes())
	fail.NowIf(t, err)
	return events
}

// newRecorder returns a recorder and its output.
func newRecorder(t *testing.T) (*eventlog.Recorder, *output) {
	t.Helper()
	w := &output{}
	rec := eventlog.NewRecorder(w, "api-1")
	t.Cleanup(func() {
		fail.If(t, rec.Close())
	})
	return rec, w
}

// With many actors at once, each event is complete and takes exactly one write.
func TestOneWritePerEvent(t *testing.T) {
	rec, w := newRecorder(t)
	const actors, each = 16, 50
	var wg sync.WaitGroup
	for i := range actors {
		wg.Go(func() {
			ctx := eventlog.WithWho(t.Context(), string(rune('a'+i)))
			for n := range each {
				rec.Record(ctx, eventlog.Event{Kind: eventlog.Begun, Tx: int64(n)})
			}
		})
	}
	wg.Wait()
	next := map[string]int64{}
	for _, e := range w.events(t) {
		if e.Process != "api-1" || e.At == 0 || e.Tx != next[e.Who] {
			t.Fatalf("got %+v, want transaction %d of %s", e, next[e.Who], e.Who)
		}
		next[e.Who]++
	}
	if len(next) != actors || w.writes != actors*each {
		t.Errorf("%d actors, %d writes", len(next), w.writes)
	}
}

func TestFileIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	began := time.Now().UnixNano()
	for _, process := range []string{"api-1", "api-2"} {
		rec, err := eventlog.Open(path, process)
		fail.NowIf(t, err)
		rec.Record(t.Context(), eventlog.Event{Kind: eventlog.Begun})
		data, err := os.ReadFile(path) // before Close: the process may be killed now
		fail.NowIf(t, err)
		events, err := eventlog.Parse(data)
		if err != nil || events[len(events)-1].Process != process || events[0].Process != "api-1" {
			t.Errorf("%+v, %v", events, err)
		}
		if last := events[len(events)-1]; last.At < began || last.At > time.Now().UnixNano() {
			t.Errorf("At is %d, not the current time", last.At)
		}
		for range 2 {
			fail.If(t, rec.Close())
		}
		rec.Record(t.Context(), eventlog.Event{Kind: eventlog.Begun}) // after Close: discarded, no error
	}
	if _, err := eventlog.Open(t.TempDir(), "api-1"); err == nil {
		t.Error("a directory was opened for writing")
	}
}

// A failed write does not stop the work. Close returns the first failure.
func TestCloseReturnsTheFirstFailedWrite(t *testing.T) {
	full := errors.New("no space left")
	w := &output{err: full}
	rec := eventlog.NewRecorder(w, "api-1")
	rec.Record(context.Background(), eventlog.Event{Kind: eventlog.Begun})
	w.err = errors.New("another reason")
	rec.Record(context.Background(), eventlog.Event{Kind: eventlog.Begun})
	fail.Unless(t, rec.Close(), full, "Close")
}
