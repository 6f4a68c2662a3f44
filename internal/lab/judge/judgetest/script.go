// Package judgetest has histories for the tests of package judge and package witness.
package judgetest

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// Script reads a history as a test writes it, one event on each line: "ms who what
// key=value…". "17@2" is buyer 17 in the process api-2 (without "@": api-1), whose owner is o17.
// "store" lines are samples: "store 17 ttl=100", "store free", "store down".
//
// The keys: asked, left, ttl and to in ms; stored as in samples; tx, stock, mode,
// order, token, user, version, attempt; key; err; shared; mech.
func Script(t *testing.T, lines string) judge.Evidence {
	t.Helper()
	var ev judge.Evidence
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 2 {
			t.Fatalf("not a line of a history: %q", line)
		}
		at := Nanos(t, words[0])
		if words[1] == "end" {
			ev.End = at
			continue
		}
		if len(words) < 3 {
			t.Fatalf("not a line of a history: %q", line)
		}
		with := map[string]string{}
		for _, word := range words[3:] {
			name, value, _ := strings.Cut(word, "=")
			with[name] = value
		}
		switch words[2] {
		case "killed":
			ev.Deaths = append(ev.Deaths, judge.Death{Process: words[1], At: at})
		case "paused":
			ev.Pauses = append(ev.Pauses, judge.Pause{Process: words[1], From: at, To: Nanos(t, with["to"])})
		case "fault":
			ev.Faults = append(ev.Faults, judge.Fault{From: at, To: Nanos(t, with["to"]), What: i18n.Plain(words[1])})
		default:
			if words[1] == "store" {
				ev.Samples = append(ev.Samples, Sample(t, at, words[2], with))
				continue
			}
			ev.Events = append(ev.Events, Event(t, at, words[1], eventlog.Kind(words[2]), with))
		}
	}
	return ev
}

// Origin is the time 0 of a script.
const Origin = int64(1_800_000_000_000_000_000)

// Nanos is the time of a script at that many milliseconds; 0 if there are none.
func Nanos(t *testing.T, ms string) int64 {
	t.Helper()
	if ms == "" {
		return 0
	}
	f, err := strconv.ParseFloat(ms, 64)
	if err != nil {
		t.Fatal(err)
	}
	return Origin + int64(f*float64(time.Millisecond))
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func milli(t *testing.T, text string) *float64 {
	t.Helper()
	if text == "" {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

func value(name string) string {
	switch {
	case name == "free":
		return ""
	case strings.HasPrefix(name, "#"): // a number that names nobody
		return name[1:]
	case strings.HasPrefix(name, "x:"):
		return "random:1#o" + name[2:]
	}
	return "o" + name
}

// Sample is what a "store" line of a script says.
func Sample(t *testing.T, at int64, what string, with map[string]string) judge.Sample {
	t.Helper()
	s := judge.Sample{At: at, Key: cmp.Or(with["key"], "k")}
	if what == "down" {
		s.Err = "unavailable"
		return s
	}
	s.Stored = eventlog.Stored{Owner: value(what), TTLMS: milli(t, with["ttl"])}
	return s
}

// Event is what any other line of a script says.
func Event(t *testing.T, at int64, actor string, kind eventlog.Kind, with map[string]string) eventlog.Event {
	t.Helper()
	buyer, process, _ := strings.Cut(actor, "@")
	e := eventlog.Event{
		At: at, Process: "api-" + cmp.Or(process, "1"), Who: "buyer " + buyer, Kind: kind, Error: with["err"],
		Began: Nanos(t, with["asked"]), LeftMS: milli(t, with["left"]), Token: uint64(number(t, with["token"])),
		Attempt: number(t, with["attempt"]), Tx: number(t, with["tx"]),
	}
	_, e.Shared = with["shared"]
	e.Mechanism = with["mech"]
	switch kind {
	case eventlog.Acquiring, eventlog.Acquired, eventlog.Refused, eventlog.Lost, eventlog.Releasing, eventlog.Released, eventlog.Abandoned:
		e.Key, e.Owner = cmp.Or(with["key"], "k"), "o"+cmp.Or(with["owner"], buyer)
		if kind == eventlog.Acquiring && with["owner"] == "" {
			e.Owner = ""
		}
		if stored, known := with["stored"]; known {
			e.Stored = &eventlog.Stored{Owner: value(stored)}
		}
	default:
		e.Voucher, e.Stock, e.Version = 1, number(t, with["stock"]), number(t, with["version"])
		e.Order, e.User = number(t, with["order"]), number(t, cmp.Or(with["user"], buyer))
		if kind == eventlog.Write {
			e.Mode = cmp.Or(with["mode"], eventlog.ModeUnguarded)
		}
	}
	return e
}
