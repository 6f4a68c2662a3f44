package httpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"seckill/internal/httpserver/servertest"
)

// A connection ends with the answer to a request whose body has no known length. Among them are all that have
// Content-Length and Transfer-Encoding, whose end a proxy may see elsewhere (RFC 9112, 6.3).
func TestChunkedRequestsEndTheConnection(t *testing.T) {
	const chunks = "2\r\n{}\r\n0\r\n\r\n"
	for name, tt := range map[string]struct {
		sent   string
		status int
	}{
		"both lengths":          {servertest.Header("POST", "/", "Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", len(chunks))) + "\r\n" + chunks, 201},
		"both, and the other":   {servertest.Header("POST", "/", "Content-Length: 0", "Transfer-Encoding: chunked") + "\r\n" + chunks, 201},
		"chunks alone":          {servertest.Header("POST", "/", "Transfer-Encoding: chunked") + "\r\n" + chunks, 201},
		"HTTP/1.0":              {"POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 201},
		"the server as a whole": {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, 200},
		"a GET that has a body": {servertest.Header("GET", "/", "Content-Length: 3", "Transfer-Encoding: chunked") + "\r\n" + chunks, 201},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, nothing)
				go func() { _, _ = io.WriteString(c, tt.sent+aRequest) }()
				resp, err := http.ReadResponse(c.Answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != tt.status || !resp.Close {
					t.Errorf("%d, close %v, %v; want %d and the end of the connection", resp.StatusCode, resp.Close, err, tt.status)
				}
				c.WantClosed()
			})
		})
	}
}
