package httpapi_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is not a whole request of a bounded size is answered or cut off, and not waited for longer than 10 s.
func TestServerLimits(t *testing.T) {
	create := header("POST", "/api/v1/vouchers", "Content-Type: application/json")
	for name, c := range map[string]struct {
		raw, want string // want "": the connection is closed without an answer
		after     time.Duration
	}{
		"a header that never ends":           {header("GET", "/"), "", 10 * time.Second},
		"a body that never comes":            {create + "Content-Length: 10\r\n\r\n{", "400 Bad Request", 10 * time.Second},
		"a body cut into bad chunks":         {create + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400 Bad Request", 0},
		"a body without a length, too large": {create + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 70_000, strings.Repeat(" ", 70_000)), "413 Request Entity Too Large", 0},
		"a body that says it is too large":   {create + "Content-Length: 9999999999\r\n\r\n", "413 Request Entity Too Large", 0},
		"a header too large":                 {header("GET", "/", "X-Large: "+strings.Repeat("x", 64<<10)) + "\r\n", "431 Request Header Fields Too Large", 0},
		"not HTTP":                           {"HELO x\r\n\r\n", "400 Bad Request", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, began := newFixture(t, lab).listen(t).connect(), time.Now()
				go func() { _, _ = io.WriteString(client, c.raw) }()
				line, _ := client.answers.ReadString('\n') // the end of the connection is an empty one
				if got := strings.TrimPrefix(strings.TrimSpace(line), "HTTP/1.1 "); got != c.want || time.Since(began) != c.after {
					t.Errorf("%q after %v; want %q after %v", got, time.Since(began), c.want, c.after)
				}
			})
		})
	}
}
