package experiments

import (
	"slices"
	"testing"
	"time"

	"seckill/internal/lab/finding"
)

func TestParseCommand(t *testing.T) {
	for _, test := range []struct {
		line  string
		words []string // nil: not understood
	}{
		{`+1339518083.107412 [0 127.0.0.1:60866] "set" "lock:{stock:1}" "a#b:1" "nx" "get"`, []string{"set", "lock:{stock:1}", "a#b:1", "nx", "get"}},
		{`+1339518083.107412 [0 lua] "GET" "k] "`, []string{"GET", "k] "}},
		{`+OK`, nil},
		{`+soon [0 lua] "GET" "k"`, nil},
		{``, nil},
	} {
		c, ok := parseCommand(test.line)
		if ok != (test.words != nil) || ok && !slices.Equal(c.words(), test.words) {
			t.Errorf("%q: %q, %v", test.line, c.words(), ok)
		}
		if want := 1339518083107412 * time.Microsecond; ok && c.at != want {
			t.Errorf("%q: at %v, want %v", test.line, c.at, want)
		}
	}
}

// Five buyers take turns of 10 ms, and a waiting buyer asks every 4 ms.
func TestPollersCountsWhatIsAskedInVain(t *testing.T) {
	const key = "{stock:1}"
	var commands []command
	say := func(ms int, text string) {
		commands = append(commands, command{at: time.Duration(ms) * time.Millisecond, text: text})
	}
	values := []string{"a", "b", "c", "d", "e"}
	for turn, value := range values {
		granted := 10 * turn
		for ms := 0; ms < granted; ms += 4 {
			say(ms, `"set" "lock:`+key+`" "`+value+`" "nx"`)
		}
		say(granted, `"set" "lock:`+key+`" "`+value+`" "nx"`)
		say(granted+9, `"evalsha" "cafe" "1" "lock:`+key+`" "`+value+`"`)
		say(granted+9, `"set" "lock:{stock:2}" "`+value+`" "nx"`) // something else
	}
	w, ok := drawPollers(commands, key)
	if !ok {
		t.Fatal("no picture")
	}
	vain := 0
	for _, lane := range w.Lanes {
		vain += len(lane.Marks)
	}
	// Of the first two turns, 19 ms: b asks three times before its turn, the others five.
	if want := 3 + 3*5; w.Kind != finding.ExcessCommands || len(w.Lanes) != 6 || vain != want {
		t.Errorf("%s with %d lanes and %d marks, want %d: %s", w.Kind, len(w.Lanes), vain, want, w.Summary)
	}
	if _, ok := drawPollers(commands[:20], key); ok {
		t.Error("a picture of too few")
	}
}
