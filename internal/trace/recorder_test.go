package trace_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/trace"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// tape is a writer that keeps what was written, and how many times.
type tape struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	writes int
	err    error
}

func (w *tape) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.writes++
	return w.buf.Write(p)
}

func (w *tape) events(t *testing.T) []trace.Event {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	events, err := trace.Parse(w.buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// recording is a recorder on a tape.
func recording(t *testing.T) (*trace.Recorder, *tape) {
	t.Helper()
	w := &tape{}
	rec := trace.NewRecorder(w, "api-1")
	t.Cleanup(func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	return rec, w
}

// Many at once, each event is whole, and there is one write for each.
func TestOneWriteForEachEvent(t *testing.T) {
	rec, w := recording(t)
	const actors, each = 16, 50
	var wg sync.WaitGroup
	for i := range actors {
		wg.Go(func() {
			ctx := trace.WithWho(t.Context(), string(rune('a'+i)))
			for n := range each {
				rec.Record(ctx, trace.Event{Kind: trace.Begun, Tx: int64(n)})
			}
		})
	}
	wg.Wait()
	next := map[string]int64{}
	for _, e := range w.events(t) {
		if e.Process != "api-1" || e.At == 0 || e.Tx != next[e.Who] {
			t.Fatalf("%+v, where transaction %d of %s was to come", e, next[e.Who], e.Who)
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
		rec, err := trace.Open(path, process)
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), trace.Event{Kind: trace.Begun})
		data, err := os.ReadFile(path) // before any Close: a process may be killed now
		if err != nil {
			t.Fatal(err)
		}
		events, err := trace.Parse(data)
		if err != nil || events[len(events)-1].Process != process || events[0].Process != "api-1" {
			t.Errorf("%+v, %v", events, err)
		}
		if last := events[len(events)-1]; last.At < began || last.At > time.Now().UnixNano() {
			t.Errorf("at %d, which is not now", last.At)
		}
		for range 2 {
			if err := rec.Close(); err != nil {
				t.Error(err)
			}
		}
		rec.Record(t.Context(), trace.Event{Kind: trace.Begun}) // too late, and no failure
	}
	if _, err := trace.Open(t.TempDir(), "api-1"); err == nil {
		t.Error("a folder was opened for writing")
	}
}

// Recording never stops the work; that it failed is said at the end.
func TestFailureToWriteIsSaidAtTheEnd(t *testing.T) {
	full := errors.New("no space left")
	w := &tape{err: full}
	rec := trace.NewRecorder(w, "api-1")
	rec.Record(context.Background(), trace.Event{Kind: trace.Begun})
	w.err = errors.New("another reason")
	rec.Record(context.Background(), trace.Event{Kind: trace.Begun})
	if err := rec.Close(); !errors.Is(err, full) {
		t.Errorf("Close = %v, want the first failure", err)
	}
}
