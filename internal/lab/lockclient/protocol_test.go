package lockclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// talk runs Main in this process. It returns functions that send a line and read the next one.
func talk(t *testing.T, config string) (say func(string), hear func() reply) {
	t.Helper()
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Main(context.WithoutCancel(t.Context()), in, out, io.Discard) // the end of the input ends it
		out.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		feed.Close()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	say = func(s string) {
		t.Helper()
		fail.NowIf(t, fail.Of(fmt.Fprintln(feed, s)))
	}
	from := bufio.NewScanner(answers)
	hear = func() reply {
		t.Helper()
		if !from.Scan() {
			t.Fatalf("no answer: %v", from.Err())
		}
		var r reply
		if err := json.Unmarshal(from.Bytes(), &r); err != nil {
			t.Fatalf("%v in %s", err, from.Text())
		}
		return r
	}
	say(config)
	return say, hear
}

func TestWrongRequests(t *testing.T) {
	say, hear := talk(t, `{"Name":"a"}`)
	if r := hear(); r.ID != 0 || r.Error != nil {
		t.Fatalf("it is not ready: %v", r.Error)
	}
	for name, tc := range map[string]struct {
		request string
		id      int64
		want    string // in the text
	}{
		"no JSON":           {`acquire`, 0, "not understood"},
		"two values":        {`{"ID":1,"Do":"status"} {}`, 0, "follows"},
		"unknown field":     {`{"ID":1,"To":"status"}`, 0, "To"},
		"no number":         {`{"Do":"status","With":{}}`, 0, "number"},
		"unknown verb":      {`{"ID":2,"Do":"steal","With":{}}`, 2, "steal"},
		"with nothing":      {`{"ID":3,"Do":"release"}`, 3, "not understood"},
		"with nonsense":     {`{"ID":4,"Do":"acquire","With":{"Lok":"lua"}}`, 4, "Lok"},
		"unknown mechanism": {`{"ID":5,"Do":"acquire","With":{"Lock":"luck","Key":"k"}}`, 5, "luck"},
		"no server":         {`{"ID":6,"Do":"acquire","With":{"Lock":"lua","Key":"k"}}`, 6, "not configured"},
		"no key":            {`{"ID":7,"Do":"acquire","With":{"Lock":"local"}}`, 7, "key is empty"},
		"negative timeout":  {`{"ID":8,"Do":"acquire","With":{"Lock":"local","Key":"k","Timeout":-1}}`, 8, "negative"},
		"unknown fault":     {`{"ID":9,"Do":"acquire","With":{"Lock":"local","Key":"k","Faults":[{"point":"x"}]}}`, 9, "fault point"},
		"no lease":          {`{"ID":10,"Do":"release","With":{"Lease":"a/9"}}`, 10, "a/9"},
		"no transaction":    {`{"ID":11,"Do":"write","With":{"Tx":"a/9"}}`, 11, "a/9"},
		"endless loop":      {`{"ID":12,"Do":"loop","With":{"Lock":"local","Key":"k"}}`, 12, "needs an end"},
		"too many workers":  {`{"ID":13,"Do":"loop","With":{"Lock":"local","Key":"k","Times":1,"Workers":100000}}`, 13, "workers"},
	} {
		say(tc.request)
		r := hear()
		if r.ID != tc.id || r.Error == nil || r.Error.Kind != Invalid || !strings.Contains(r.Error.Text, tc.want) {
			t.Errorf("%s: answer %d, %+v; want %d, %s with %q in it", name, r.ID, r.Error, tc.id, Invalid, tc.want)
		}
	}
	say(`{"ID":20,"Do":"acquire","With":{"Lock":"local","Key":"k"}}`)
	if r := hear(); r.ID != 20 || r.Error != nil {
		t.Errorf("after all that: %d, %v; want it at work", r.ID, r.Error)
	}
}

func TestNumberThatIsAtWorkAlready(t *testing.T) {
	say, hear := talk(t, `{"Name":"a"}`)
	hear()
	say(`{"ID":1,"Do":"acquire","With":{"Lock":"local","Key":"k"}}`)
	hear()
	say(`{"ID":2,"Do":"acquire","With":{"Lock":"local","Key":"k","Wait":30000000000}}`)
	say(`{"ID":2,"Do":"status","With":{"Lease":"a/1"}}`)
	if r := hear(); r.ID != 2 || r.Error == nil || r.Error.Kind != Invalid {
		t.Errorf("the second one: %+v; want %s", r, Invalid)
	}
	say(`{"ID":2,"Do":"cancel"}`) // and no reply to it
	say(`{"ID":3,"Do":"status","With":{"Lease":"a/1"}}`)
	if r := hear(); r.ID != 3 || r.Error != nil {
		t.Errorf("the next answer is %+v; want that of 3", r)
	}
	say(`{"ID":1,"Do":"cancel"}`) // answered, and cancelled: the lease is released
	say(`{"ID":4,"Do":"acquire","With":{"Lock":"local","Key":"k","Wait":30000000000}}`)
	if r := hear(); r.ID != 4 || r.Error != nil {
		t.Errorf("the next holder: %+v; want it granted", r)
	}
}

func TestContextEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Main(ctx, in, out, io.Discard)
		out.Close()
		ended <- err
	}()
	fail.NowIf(t, fail.Of(fmt.Fprintln(feed, `{"Name":"a"}`)))
	from := bufio.NewScanner(answers)
	from.Scan() // it is ready
	for id := range 2 {
		fail.NowIf(t, fail.Of(fmt.Fprintf(feed, `{"ID":%d,"Do":"acquire","With":{"Lock":"local","Key":"k","Wait":30000000000}}`+"\n", id+1)))
	}
	from.Scan() // one of them holds, the other one waits
	cancel()
	for from.Scan() { // what is still sent
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v; want %v", err, context.Canceled)
	}
}

func TestNobodyReadsTheAnswers(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	answers, out := io.Pipe()
	answers.Close()
	ended := make(chan error, 1)
	go func() { ended <- Main(t.Context(), in, out, io.Discard) }()
	fail.NowIf(t, fail.Of(fmt.Fprintln(feed, `{"Name":"a"}`)))
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ended with %v; want %v", err, io.ErrClosedPipe)
	}
}

func TestConfigurationThatIsNotUnderstood(t *testing.T) {
	for config, want := range map[string]string{
		"":                           "before the configuration",
		"Name: a\n":                  "not understood",
		`{"Nom":"a"}` + "\n":         "Nom",
		`{"Watchdog":-1,"Name":"a"}`: "negative",
		`{}`:                         "no name",
		`{"Name":"a","MySQLDSN":"x","SQLite":"y"}`: "SQLite",
	} {
		var out strings.Builder
		err := Main(t.Context(), strings.NewReader(config), &out, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q in it", config, err, want)
		}
	}
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
