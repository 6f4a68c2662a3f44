package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// paced sends orders at a fixed rate for a window, however long the answers take. The latency of a request that was
// sent late, because the one before it was not answered yet, counts from when it was due. Latencies are in µs.
func (s *benchService) paced(b *testing.B, url string, rate float64) *hdrhistogram.Histogram {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), window())
	defer cancel()
	every := time.Duration(float64(connections) / rate * float64(time.Second))
	pacers := make([]pacer, connections)
	failed := make(chan error, connections)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range pacers {
		pacers[i] = pacer{
			every: every, due: begun.Add(every * time.Duration(i) / connections), user: s.user + i,
			latency: hdrhistogram.New(1, time.Minute.Microseconds(), 3),
		}
		all.Go(func() { failed <- pacers[i].run(ctx, url) })
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			b.Fatal(err)
		}
	}
	latency := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	for _, p := range pacers {
		latency.Merge(p.latency)
		s.user = max(s.user, p.user)
	}
	return latency
}

// pacer is one connection.
type pacer struct {
	every   time.Duration
	due     time.Time
	user    int
	latency *hdrhistogram.Histogram
}

// run sends a request whenever one is due. It does its own reading and writing: net/http's client would use more of the
// machine than the service.
func (p *pacer) run(ctx context.Context, to string) error {
	where, err := url.Parse(to)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", where.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for end, _ := ctx.Deadline(); p.due.Before(end); p.due = p.due.Add(p.every) {
		time.Sleep(time.Until(p.due))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-User-ID: %d\r\n\r\n", where.Path, where.Host, p.user); err != nil {
			return err
		}
		if err := accepted(answers); err != nil {
			return err
		}
		if err := p.latency.RecordValue(max(1, time.Since(p.due).Microseconds())); err != nil {
			return err
		}
		p.user += connections
	}
	return nil
}

// accepted reads an answer, which must be 202.
func accepted(r *bufio.Reader) error {
	status, err := readAnswer(r)
	if err == nil && !strings.Contains(status, " 202 ") {
		err = fmt.Errorf("want %d, got %s", http.StatusAccepted, status)
	}
	return err
}

// readAnswer reads an answer and returns its first line.
func readAnswer(r *bufio.Reader) (status string, err error) {
	if status, err = r.ReadString('\n'); err != nil {
		return "", err
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if digits, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(digits))); err != nil {
				return "", err
			}
		}
	}
	_, err = r.Discard(length)
	return status, err
}
