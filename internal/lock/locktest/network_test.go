package locktest

import (
	"net"
	"testing"
	"time"
)

// A connection that is being made while the network is cut does not survive that.
func TestCutWhileDialling(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close() //nolint:gocritic // open until the end of the test
		}
	}()
	for range 300 {
		network := NewNetwork()
		dialled := make(chan net.Conn, 1)
		go func() {
			conn, err := network.Dial(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				conn = nil
			}
			dialled <- conn
		}()
		time.Sleep(time.Microsecond) // some are cut before they dial, some while they do, some after it
		network.Cut()
		if conn := <-dialled; conn != nil {
			if _, err := conn.Write([]byte("x")); err == nil {
				t.Fatal("a connection survived the cut")
			}
		}
	}
}
