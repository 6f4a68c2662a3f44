package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
)

func TestLogWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		w := httpapi.NewLogWriter(&out)
		write := func(s string) {
			if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		}
		want := func(when, want string) {
			t.Helper()
			if got := out.String(); got != want {
				t.Errorf("%s: %q is out, want %q", when, got, want)
			}
		}
		write("a")
		want("before Run", "a")

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		write("b")
		want("while it runs", "a")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		want("a second later", "ab")
		write("c")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want("at the end", "abc")
		write("d")
		want("after the end", "abcd")
	})
}

func TestLogWriterLosesNothing(t *testing.T) {
	var out lockedBuffer
	w := httpapi.NewLogWriter(&out)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				if i == 500 {
					cancel()
				}
				_, _ = w.Write([]byte(strings.Repeat("x", 99) + "\n"))
			}
		})
	}
	wg.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Count(out.String(), strings.Repeat("x", 99)+"\n"); got != 8000 {
		t.Errorf("%d whole lines, want 8000", got)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestLogWriterReturnsItsError(t *testing.T) {
	w := httpapi.NewLogWriter(brokenWriter{})
	if _, err := w.Write([]byte("a")); err == nil {
		t.Error("a line was lost in silence")
	}
}

// filling is a disk that has room for so many bytes.
type filling struct {
	lockedBuffer
	room atomic.Int64
}

func (f *filling) Write(p []byte) (int, error) {
	n := min(int(f.room.Load()), len(p))
	f.room.Add(int64(-n))
	_, _ = f.lockedBuffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("disk full")
	}
	return n, nil
}

// A disk that was full for a time loses no line that fits into the buffer, and the stop afterwards is a clean one.
func TestLogWriterOutlivesAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plenty = 1 << 40
		out := &filling{}
		w := httpapi.NewLogWriter(out)
		write := func(s string, fails bool) {
			t.Helper()
			if _, err := w.Write([]byte(s)); (err != nil) != fails {
				t.Errorf("Write(%.10q) = %v", s, err)
			}
		}
		want := func(when, want string) {
			t.Helper()
			if got := out.String(); got != want {
				t.Errorf("%s: %q is out, want %q", when, got, want)
			}
		}
		write("first\n", true)
		out.room.Store(plenty)
		write("second\n", false)
		want("before Run", "first\nsecond\n")

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		out.room.Store(2)
		write("third\n", false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		want("while the disk is full", "first\nsecond\nth")
		write("fourth\n", false)
		out.room.Store(plenty)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		const kept = "first\nsecond\nthird\nfourth\n"
		want("a second after there is room again", kept)

		out.room.Store(0)
		line := strings.Repeat("x", 1023) + "\n"
		for range 64 {
			write(line, false)
		}
		write("lost\n", true)
		out.room.Store(plenty)
		write("last\n", false)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the last flush failed: %v", err)
		}
		write("after\n", false)
		want("after the end", kept+strings.Repeat(line, 64)+"last\nafter\n")
	})
}

// A disk that is still full at the end is an error of Run. What could not be written comes out later.
func TestLogWriterReturnsTheErrorOfTheLastFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &filling{}
		w := httpapi.NewLogWriter(out)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		if _, err := w.Write([]byte("a\n")); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("a line was lost in silence")
		}
		out.room.Store(4)
		if _, err := w.Write([]byte("b\n")); err != nil || out.String() != "a\nb\n" {
			t.Errorf("%v, %q is out", err, out.String())
		}
	})
}
