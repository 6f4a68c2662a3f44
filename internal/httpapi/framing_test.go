package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

// A connection ends with the answer to a request whose body has no known length. Among them are all that have
// Content-Length and Transfer-Encoding, whose end a proxy may see elsewhere (RFC 9112, 6.3).
func TestChunkedRequestsEndTheConnection(t *testing.T) {
	const chunks = "2\r\n{}\r\n0\r\n\r\n"
	order := []string{"POST", "/api/v1/vouchers/1/orders", "X-User-ID: 42", "Content-Type: application/json", "Transfer-Encoding: chunked"}
	for name, tt := range map[string]struct {
		sent   string
		status int
	}{
		"both lengths":          {header(order[0], order[1], append(order[2:], fmt.Sprintf("Content-Length: %d", len(chunks)))...) + "\r\n" + chunks, 201},
		"both, and the other":   {header(order[0], order[1], append([]string{"Content-Length: 0"}, order[2:]...)...) + "\r\n" + chunks, 201},
		"chunks alone":          {header(order[0], order[1], order[2:]...) + "\r\n" + chunks, 201},
		"HTTP/1.0":              {"POST /api/v1/vouchers/1/orders HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nX-User-ID: 42\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 201},
		"no such address":       {header("POST", "/nowhere", "Content-Length: 3", "Transfer-Encoding: chunked") + "\r\n" + chunks, 404},
		"the server as a whole": {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, 200},
		"a GET that has a body": {header("GET", "/api/v1/vouchers", "Content-Length: 3", "Transfer-Encoding: chunked") + "\r\n" + chunks, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, func(context.Context) error { return nil })
				go func() { _, _ = io.WriteString(c, tt.sent+anOrder) }()
				resp, err := http.ReadResponse(c.answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != tt.status || !resp.Close {
					t.Errorf("%d, close %v, %v; want %d and the end of the connection", resp.StatusCode, resp.Close, err, tt.status)
				}
				c.wantClosed()
			})
		})
	}
}
