package httpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpserver/servertest"
	"seckill/internal/simulate"
)

// withLines is a request whose header has n lines after the request line. A body follows it.
func withLines(n int, end, framing, body string) string {
	lines := []string{"POST / HTTP/1.1", "Host: localhost", framing}
	for i := len(lines) - 1; i < n; i++ {
		lines = append(lines, fmt.Sprintf("a%d:", i))
	}
	return strings.Join(lines, end) + end + end + body
}

func lines(n int) string { return withLines(n, "\r\n", "Content-Length: 0", "") }

// wantRefused waits for the answer to a header with too many lines, and for the end of the connection.
func wantRefused(t *testing.T, c *servertest.Client) {
	t.Helper()
	if status, body := c.Answer(); status != http.StatusRequestHeaderFieldsTooLarge || !strings.HasPrefix(body, "431 ") {
		t.Errorf("%d %q, want 431", status, body)
	}
	c.WantClosed()
}

// A header has at most 100 lines, however it arrives, and whatever was sent before it on the connection. The lines of a
// body do not count.
func TestHeaderLinesAreBounded(t *testing.T) {
	var (
		most, over = lines(100), lines(101)
		newlines   = "{" + strings.Repeat("\n", 10_000) + "}"
		sized      = withLines(5, "\r\n", fmt.Sprintf("Content-Length: %d", len(newlines)), newlines)
		chunked    = withLines(5, "\r\n", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(newlines), newlines))
		everyone   = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" // is answered without the handler
	)
	for name, tt := range map[string]struct {
		sent     string
		accepted int
		refused  bool
	}{
		"100 lines":                            {most, 1, false},
		"101 lines":                            {over, 0, true},
		"100 lines that end with \\n":          {withLines(100, "\n", "Content-Length: 0", ""), 1, false},
		"101 lines that end with \\n":          {withLines(101, "\n", "Content-Length: 0", ""), 0, true},
		"4,000 lines without an end":           {strings.TrimSuffix(lines(4000), "\r\n"), 0, true},
		"a request after another one":          {most + most + over, 2, true},
		"a body with 10,000 lines":             {sized + sized, 2, false},
		"a request after such a body":          {sized + most + over, 2, true},
		"the same body in chunks":              {sized + chunked, 2, false},
		"empty lines between requests":         {lines(4) + "\r\n" + lines(98) + "\r\n" + over, 2, true},
		"half an empty line between requests":  {lines(4) + "\r\r\n\n" + over, 1, true},
		"a request after one without handler":  {everyone + lines(1000), 1, true},
		"empty lines before the first request": {"\r\n" + lines(4), 0, false},
	} {
		for _, size := range []int{1, 7, 1000, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", name, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, nothing)
					go func() {
						for rest := tt.sent; rest != ""; {
							part := rest[:min(size, len(rest))]
							if _, err := io.WriteString(c, part); err != nil {
								return // refused
							}
							rest = rest[len(part):]
						}
					}()
					for range tt.accepted {
						if status, body := c.Answer(); status/100 != 2 {
							t.Fatalf("%d %s, want 2xx", status, body)
						}
					}
					if tt.refused {
						wantRefused(t, c)
					}
				})
			})
		}
	}
}

// A client that is refused and goes on sending is cut off.
func TestRefusedHeaderThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, nothing)
		began := time.Now()
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			for _, err := io.WriteString(c, "GET / HTTP/1.1\r\n"); err == nil; simulate.Sleep(time.Millisecond) {
				_, err = io.WriteString(c, "a:\r\n")
			}
		})
		wantRefused(t, c)
		if took := time.Since(began); took > 700*time.Millisecond {
			t.Errorf("closed after %v", took)
		}
	})
}
