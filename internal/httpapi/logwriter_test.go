package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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
