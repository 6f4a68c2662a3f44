package trace_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"seckill/internal/trace"
)

func TestParse(t *testing.T) {
	const a, b = `{"at":1,"process":"api-1","kind":"asked"}`, `{"at":2,"process":"api-1","kind":"begun","tx":7}`
	first := trace.Event{At: 1, Process: "api-1", Kind: trace.Asked}
	second := trace.Event{At: 2, Process: "api-1", Kind: trace.Begun, Tx: 7}
	for _, c := range []struct {
		name, data string
		want       []trace.Event
		wrong      string // what the error names
	}{
		{"nothing", "", nil, ""},
		{"whole", a + "\n" + b + "\n", []trace.Event{first, second}, ""},
		{"the last line without its end", a + "\n" + b, []trace.Event{first, second}, ""},
		{"the last line cut off", a + "\n" + b[:20], []trace.Event{first}, ""},
		{"nothing but a beginning", a[:5], nil, ""},
		{"empty lines", "\n" + a + "\n\n" + b + "\n\n", []trace.Event{first, second}, ""},
		{"a line that is none, with its end", a + "\n" + b[:20] + "\n" + b + "\n", []trace.Event{first}, "line 2"},
		{"the last line is none, with its end", a + "\nnonsense\n", []trace.Event{first}, "line 2"},
	} {
		got, err := trace.Parse([]byte(c.data))
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.wrong)
		}
	}
}

// Wherever a file is cut, the events before the cut are there and nothing is wrong.
func FuzzParseCutOff(f *testing.F) {
	f.Add("buyer 17", "lock: \"seat\" is held\n", int64(12), uint(40))
	f.Fuzz(func(t *testing.T, who, text string, stock int64, cut uint) {
		var whole bytes.Buffer
		var ends []int
		lines := json.NewEncoder(&whole)
		for tx := range int64(3) {
			if err := lines.Encode(trace.Event{At: 1, Process: "p", Who: who, Kind: trace.Undone, Error: text, Stock: stock, Tx: tx}); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, whole.Len())
		}
		data := whole.Bytes()[:cut%uint(whole.Len()+1)]
		got, err := trace.Parse(data)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		want := 0
		for _, end := range ends {
			if len(data) >= end-1 { // all but the line's end is enough
				want++
			}
		}
		if len(got) != want || !slices.IsSortedFunc(got, func(a, b trace.Event) int { return int(a.Tx - b.Tx) }) {
			t.Errorf("of %d bytes %d events are left, want %d", len(data), len(got), want)
		}
	})
}
