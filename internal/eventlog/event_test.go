package eventlog_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"seckill/internal/eventlog"
	"seckill/internal/testkit/fail"
)

func TestParse(t *testing.T) {
	const a, b = `{"at":1,"process":"api-1","kind":"acquiring"}`, `{"at":2,"process":"api-1","kind":"begun","tx":7}`
	first := eventlog.Event{At: 1, Process: "api-1", Kind: eventlog.Acquiring}
	second := eventlog.Event{At: 2, Process: "api-1", Kind: eventlog.Begun, Tx: 7}
	for _, c := range []struct {
		name, data string
		want       []eventlog.Event
		wantErr    string // part of the error; "" for none
	}{
		{"empty", "", nil, ""},
		{"complete lines", a + "\n" + b + "\n", []eventlog.Event{first, second}, ""},
		{"last line without newline", a + "\n" + b, []eventlog.Event{first, second}, ""},
		{"last line cut off", a + "\n" + b[:20], []eventlog.Event{first}, ""},
		{"only line cut off", a[:5], nil, ""},
		{"empty lines", "\n" + a + "\n\n" + b + "\n\n", []eventlog.Event{first, second}, ""},
		{"complete line that is not JSON", a + "\n" + b[:20] + "\n" + b + "\n", []eventlog.Event{first}, "line 2"},
		{"complete last line that is not JSON", a + "\nnonsense\n", []eventlog.Event{first}, "line 2"},
	} {
		got, err := eventlog.Parse([]byte(c.data))
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.wantErr)
		}
	}
}

// Wherever a file is cut off, Parse returns all events before the cut and no error.
func FuzzParseCutOff(f *testing.F) {
	f.Add("buyer 17", "lock: \"seat\" is held\n", int64(12), uint(40))
	f.Fuzz(func(t *testing.T, who, text string, stock int64, cut uint) {
		var whole bytes.Buffer
		var ends []int
		lines := json.NewEncoder(&whole)
		for tx := range int64(3) {
			fail.NowIf(t, lines.Encode(eventlog.Event{At: 1, Process: "p", Who: who, Kind: eventlog.RolledBack, Error: text, Stock: stock, Tx: tx}))
			ends = append(ends, whole.Len())
		}
		data := whole.Bytes()[:cut%uint(whole.Len()+1)]
		got, err := eventlog.Parse(data)
		fail.NowIf(t, err, "%q", data)
		want := 0
		for _, end := range ends {
			if len(data) >= end-1 { // the newline may be missing
				want++
			}
		}
		if len(got) != want || !slices.IsSortedFunc(got, func(a, b eventlog.Event) int { return int(a.Tx - b.Tx) }) {
			t.Errorf("%d bytes hold %d events, want %d", len(data), len(got), want)
		}
	})
}
