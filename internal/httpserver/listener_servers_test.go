package httpserver

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The kernel keeps a bounded amount of what a client does not read, instead of megabytes for each connection.
func TestUnreadAnswersAreBounded(t *testing.T) {
	testkit.Servers(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	fail.NowIf(t, err)
	l := newListener(inner, Config{})
	l.writeLimit.Store(int64(time.Second))
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	fail.NowIf(t, err)
	defer client.Close()
	if err := client.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil { // by itself it may take megabytes
		t.Fatal(err)
	}
	server, err := l.Accept()
	fail.NowIf(t, err)
	defer server.Close()
	// The service's buffer and the client's, with what a kernel adds to both.
	const bound = 512 << 10
	taken, err := server.Write(make([]byte, 16<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || taken > bound {
		t.Errorf("%d bytes were taken of an answer that nobody read, then %v; want %d at most, then the deadline", taken, err, bound)
	}
}
