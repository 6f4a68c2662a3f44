package main

import (
	"bytes"
	"fmt"
	"testing"
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
