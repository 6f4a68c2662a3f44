package embedded

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The commands of the pipeline are larger than any buffer between client and server, as are its replies.
func TestRedisAcceptsLargePipelines(t *testing.T) {
	e, err := newRedis()
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	const patience = time.Minute // go-redis gives the whole pipeline 5 s, which a busy machine may not keep
	client := redis.NewClient(&redis.Options{Dialer: e.Dial, MaxRetries: -1, ReadTimeout: patience, WriteTimeout: patience})
	defer client.Close()
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
	e.close()
	if _, err := e.Dial(context.Background(), "", ""); err == nil {
		t.Error("Dial succeeded after the server was closed")
	}
}
