package simulate_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
)

// A connection that is being made while the link is cut does not survive that.
func TestCutWhileDialling(t *testing.T) {
	server := simulate.NewRedis(t)
	for range 300 {
		link := simulate.NewLink()
		dialled := make(chan net.Conn, 1)
		go func() {
			conn, err := link.Over(server.Dial)(t.Context(), "tcp", "")
			if err != nil {
				conn = nil
			}
			dialled <- conn
		}()
		link.Cut() // before it dials, while it does, or after it
		if conn := <-dialled; conn != nil {
			if _, err := conn.Write([]byte("x")); err == nil {
				t.Fatal("a connection survived the cut")
			}
		}
	}
}

// What a link and a paused server cost is exact.
func TestDelayFreezeAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := simulate.NewRedis(t), simulate.NewLink()
		options := server.Options()
		options.Dialer = link.Over(options.Dialer)
		client := redis.NewClient(options)
		defer client.Close()
		ping := func() time.Duration {
			began := time.Now()
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if took := ping(); took != 0 {
			t.Errorf("without a delay PING took %v", took)
		}
		link.Delay(20*time.Millisecond, 5*time.Millisecond)
		if took := ping(); took != 25*time.Millisecond {
			t.Errorf("with delays of 20 and 5 ms PING took %v", took)
		}
		link.Delay(0, 0)
		link.Freeze()
		time.AfterFunc(time.Second, link.Unfreeze)
		if took := ping(); took != time.Second {
			t.Errorf("a process frozen for a second needed %v", took)
		}
		server.Pause(2 * time.Second)
		if took := ping(); took != 2*time.Second {
			t.Errorf("a server paused for two seconds needed %v", took)
		}
	})
}
