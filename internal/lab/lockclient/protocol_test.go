package lockclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// talk serves a client in this process, without servers.
func talk(t *testing.T) *rpc.Client {
	t.Helper()
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(Config{Name: "a", EventFile: filepath.Join(t.TempDir(), "events")}, there, there, io.Discard)
	}()
	client := jsonrpc.NewClient(here)
	t.Cleanup(func() { // the end of the input ends it, whatever it is doing
		fail.If(t, client.Close())
		fail.If(t, <-ended)
	})
	return client
}

// told is the answer to a request.
func told[R, P any](t *testing.T, client *rpc.Client, id int64, do string, with P) (reply Reply[R]) {
	t.Helper()
	fail.NowIf(t, client.Call(service+"."+do, Request[P]{id, with}, &reply))
	return reply
}

func TestWrongRequests(t *testing.T) {
	client := talk(t)
	for want, what := range map[string]Acquire{
		"luck":           {Lock: "luck", Key: "k"},
		"not configured": {Lock: "lua", Key: "k"},
		"key is empty":   {Lock: "local"},
		"fault point":    {Lock: "local", Key: "k", Faults: []lock.Fault{{Point: "x"}}},
	} {
		if r := told[Grant](t, client, 1, "Acquire", what); r.Error == nil || r.Error.Kind != Invalid || !strings.Contains(r.Error.Text, want) {
			t.Errorf("%+v: %+v; want %s with %q in it", what, r.Error, Invalid, want)
		}
	}
	for do, r := range map[string]Reply[noResult]{
		"Release": told[noResult](t, client, 2, "Release", Lease("a/9")),
		"Write":   told[noResult](t, client, 3, "Write", Write{Tx: "a/9"}),
	} {
		if r.Error == nil || r.Error.Kind != Invalid || !strings.Contains(r.Error.Text, "a/9") {
			t.Errorf("%s: %+v; want %s with the name in it", do, r.Error, Invalid)
		}
	}
}

func TestCancellation(t *testing.T) {
	client := talk(t)
	held := told[Grant](t, client, 1, "Acquire", Acquire{Lock: "local", Key: "k"})
	waits := Acquire{Lock: "local", Key: "k", Wait: time.Minute}
	fail.NowIf(t, client.Call(service+".Cancel", int64(2), &noResult{})) // it comes before its request
	if r := told[Grant](t, client, 2, "Acquire", waits); r.Error == nil || r.Error.Kind != Canceled {
		t.Errorf("cancelled: %+v; want %s", r, Canceled)
	}
	var next Reply[Grant]
	waiting := client.Go(service+".Acquire", Request[Acquire]{3, waits}, &next, nil)
	if r := told[noResult](t, client, 4, "Release", held.Result.Lease); r.Error != nil {
		t.Errorf("released by the holder: %v", r.Error)
	}
	if <-waiting.Done; next.Error != nil {
		t.Errorf("the next holder: %v; want it granted", next.Error)
	}
	client.Go(service+".Acquire", Request[Acquire]{5, waits}, &next, nil) // the end of the input ends it
}

func TestEveryKindSurvivesTheWay(t *testing.T) {
	seen := map[Kind]bool{}
	for _, s := range sentinels() {
		e := report(fmt.Errorf("wrapped: %w", s.err))
		fail.Unequal(t, e.Kind, s.kind, "%v", s.err)
		data, err := json.Marshal(e)
		fail.NowIf(t, err)
		var back *Error
		fail.NowIf(t, json.Unmarshal(data, &back))
		if !seen[s.kind] && !errors.Is(back, s.err) {
			t.Errorf("%v does not come back", s.err)
		}
		seen[s.kind] = true
	}
	if KindOf(errors.New("what")) != Other || KindOf(nil) != "" || report(nil) != nil {
		t.Error("what is none of the kinds is other, and nothing is nothing")
	}
	if !errors.Is(report(&lock.NotAcquiredError{Key: "k", Holder: "h"}), lock.ErrNotAcquired) {
		t.Error("a refusal does not come back")
	}
}
