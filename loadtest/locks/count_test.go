package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func command(args ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.Bytes()
}

// The count is right however the stream is split and whatever the arguments are.
func TestParserCountsCommands(t *testing.T) {
	stream := bytes.Join([][]byte{
		command("PING"),
		command("SET", "k", "*1\r\n$4\r\nPING\r\n"),
		command("EVALSHA", "a", "1", "", "\x00\xff\r\n"),
		command("SUBSCRIBE", string(bytes.Repeat([]byte("x"), 1000))),
	}, nil)
	for size := 1; size <= len(stream); size++ {
		var p respParser
		got := 0
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			got += p.feed(rest[:n])
			rest = rest[n:]
		}
		if got != 4 {
			t.Fatalf("in pieces of %d bytes: %d commands, want 4", size, got)
		}
	}
	var p respParser
	if got := p.feed(stream[:len(stream)-1]); got != 3 {
		t.Errorf("%d commands before the last byte, want 3", got)
	}
}

// The commands of a real client, including pipelines and pub/sub, are compared with what the server says that it
// executed.
func TestCounterAgreesWithTheServer(t *testing.T) {
	server := testkit.NewRedis(t)
	b, err := newBench(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	var sent counter
	client := newClient(target{addr: server.Addr(), dial: sent.dial})
	defer client.Close()
	conn := client.Conn() // one, so that no second one connects meanwhile, which takes commands of its own
	defer conn.Close()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	count := func() window {
		t.Helper()
		executed, err := b.executed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return window{sent: sent.commands.Load(), executed: executed}
	}
	begin := count()
	_, err = conn.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 10 {
			p.Set(t.Context(), "k", i, 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	middle := count()
	if s, e := middle.sent-begin.sent, middle.executed-begin.executed; s != 10 || e != 10 {
		t.Errorf("a pipeline of 10: %d sent and %d executed, want 10", s, e)
	}
	if err := conn.Eval(t.Context(), `redis.call("get", KEYS[1]) return redis.call("del", KEYS[1])`, []string{"k"}).Err(); err != nil {
		t.Fatal(err)
	}
	end := count()
	if s, e := end.sent-middle.sent, end.executed-middle.executed; s != 1 || e != 3 {
		t.Errorf("a script of two calls: %d sent and %d executed, want 1 and 3", s, e)
	}
	channel := client.Subscribe(context.WithoutCancel(t.Context()), "c")
	defer channel.Close()
	if _, err := channel.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := count(); after.sent == end.sent {
		t.Error("a subscription was not counted")
	}
}
