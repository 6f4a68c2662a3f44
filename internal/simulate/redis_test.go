package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
)

// In a bubble a key lives as long as the bubble's clock says, and a client's deadline is kept to the nanosecond.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := server.Client(t)
		if err := client.Set(t.Context(), "key", 1, 30*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		simulate.Sleep(30*time.Second - time.Millisecond)
		if n := client.Exists(t.Context(), "key").Val(); n != 1 {
			t.Error("the key is gone a millisecond too early")
		}
		simulate.Sleep(time.Millisecond)
		if n := client.Exists(t.Context(), "key").Val(); n != 0 {
			t.Error("the key outlives its end")
		}

		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := client.BLPop(ctx, time.Minute, "empty").Err()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) && err == nil || took != 2*time.Second {
			t.Errorf("BLPOP with a deadline of 2 s: %v after %v", err, took)
		}
	})
}

// The commands of the pipeline are larger than any buffer between client and server, as are its replies.
func TestLargePipeline(t *testing.T) {
	client := simulate.NewRedis(t).Client(t)
	value := strings.Repeat("x", 10_000)
	var got []*redis.StringCmd
	if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 500 {
			p.Set(t.Context(), fmt.Sprint(i), value, time.Minute)
			got = append(got, p.Get(t.Context(), fmt.Sprint(i)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range got {
		if cmd.Val() != value {
			t.Fatal("a reply is incomplete")
		}
	}
}

func TestStopStartAndRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := server.Client(t)
		set := func() error { return client.Set(t.Context(), "key", 1, 0).Err() }
		if err := set(); err != nil {
			t.Fatal(err)
		}
		server.Stop()
		if set() == nil {
			t.Error("a stopped server answers")
		}
		server.Start()
		if n, err := client.Exists(t.Context(), "key").Result(); n != 1 || err != nil {
			t.Errorf("after Start: %d keys, %v", n, err)
		}
		server.RestartEmpty()
		_ = client.Ping(t.Context()) // on a connection of before
		if n, err := client.Exists(t.Context(), "key").Result(); n != 0 || err != nil {
			t.Errorf("after RestartEmpty: %d keys, %v", n, err)
		}
		server.Refuse(func(command string, _ ...string) string {
			if command == "SET" {
				return "NOPERM refused"
			}
			return ""
		})
		if err := client.Eval(t.Context(), "return redis.call('SET', KEYS[1], 1)", []string{"key"}).Err(); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a script's command was not refused: %v", err)
		}
		server.Refuse(nil)
		if err := set(); err != nil {
			t.Error(err)
		}
	})
}
