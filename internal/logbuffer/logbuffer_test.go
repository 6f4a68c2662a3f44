package logbuffer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// disk is what the log is written to.
type disk struct {
	mu      sync.Mutex
	written bytes.Buffer
	room    int           // how many bytes it takes
	hang    chan struct{} // not nil: writes wait until it is closed
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hang := d.hang; hang != nil {
		d.mu.Unlock()
		<-hang
		d.mu.Lock()
	}
	n := min(d.room, len(p))
	d.room -= n
	d.written.Write(p[:n])
	if n < len(p) {
		return n, errors.New("disk full")
	}
	return n, nil
}

// set changes the disk.
func (d *disk) set(room int, hang chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.hang = room, hang
}

const plenty = 1 << 40

func said(n int64) []byte { return fmt.Appendf(nil, "%d dropped\n", n) }

// story is a log in virtual time.
type story struct {
	t    *testing.T
	disk *disk
	*Writer
}

func tell(t *testing.T, d *disk, f func(s story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(story{t, d, New(d, said)})
	})
}

func (s story) write(line string, fails bool) {
	s.t.Helper()
	if _, err := s.Write([]byte(line)); (err != nil) != fails {
		s.t.Errorf("Write(%.10q) = %v", line, err)
	}
}

// after waits, and compares what has come out.
func (s story) after(d time.Duration, want string) {
	s.t.Helper()
	simulate.Sleep(d)
	synctest.Wait()
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if got := s.disk.written.String(); got != want {
		s.t.Errorf("%d bytes are out, want %d: %.80q, want %.80q", len(got), len(want), got, want)
	}
}

func (s story) close(fails bool) {
	s.t.Helper()
	if err := s.Close(); (err != nil) != fails {
		s.t.Errorf("Close = %v", err)
	}
}

func TestLinesComeOutOnceASecondAndAtTheEnd(t *testing.T) {
	tell(t, &disk{room: plenty}, func(s story) {
		s.write("a\n", false)
		s.after(interval-time.Nanosecond, "")
		s.after(time.Nanosecond, "a\n")
		s.write("b\n", false)
		s.close(false)
		s.after(0, "a\nb\n")
		s.write("late\n", true)
		s.close(false)
	})
}

func TestHalfAFullBufferIsWrittenAtOnce(t *testing.T) {
	tell(t, &disk{room: plenty}, func(s story) {
		line := strings.Repeat("x", size/2) + "\n"
		s.write(line, false)
		s.after(0, line)
		s.close(false)
	})
}

// Nobody who logs waits for a reader that hangs, and a stop ends all the same.
func TestReaderHangs(t *testing.T) {
	d := &disk{room: plenty}
	tell(t, d, func(s story) {
		hang := make(chan struct{})
		d.set(plenty, hang)
		began := time.Now()
		s.write("given to the reader\n", false)
		s.after(interval, "")
		line := strings.Repeat("x", 1023) + "\n"
		for range size / 1024 {
			s.write(line, false)
		}
		s.write("dropped\n", true)
		s.write("dropped\n", true)
		if took := time.Since(began); took != interval || s.Dropped() != 2 {
			t.Errorf("%d lines dropped, writing took %v", s.Dropped(), took-interval)
		}
		close(hang) // it reads again
		whole := "given to the reader\n" + strings.Repeat(line, size/1024)
		s.after(interval, whole+"2 dropped\n")

		hang = make(chan struct{})
		d.set(plenty, hang)
		s.write("last\n", false)
		began = time.Now()
		s.close(true)
		fail.Unequal(t, time.Since(began), lastWrite, "Close took")
		close(hang)
	})
}

// A disk that is full for a time loses nothing that fits into the buffer, and tears no line.
func TestDiskIsFull(t *testing.T) {
	d := &disk{room: 2}
	tell(t, d, func(s story) {
		s.write("first\n", false)
		s.after(3*interval, "fi")
		s.write("second\n", false)
		d.set(plenty, nil)
		s.after(interval, "first\nsecond\n")
		d.set(0, nil)
		s.write("third\n", false)
		s.close(true)
	})
}

func TestWritersAtTheSameTime(t *testing.T) {
	d := &disk{room: plenty}
	w := New(d, said)
	line := strings.Repeat("x", 99) + "\n"
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				_, _ = w.Write([]byte(line))
			}
		})
	}
	all.Wait()
	fail.If(t, w.Close())
	fail.Unequal(t, strings.Count(d.written.String(), line), 8000, "whole lines")
}
