package judge_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/judge"
	"seckill/internal/trace"
)

// A history as a test writes it: a line for each thing, "ms who what key=value…".
// "17@2" is buyer 17 in the process api-2 (without "@": api-1), whose owner is o17.
// "store" lines are samples: "store 17 ttl=100", "store free", "store down".
//
// The keys: asked, left, ttl and to in ms; stored as in samples; tx, stock, mode,
// order, token, user, version, attempt; key; err; shared; mech.
func script(t *testing.T, lines string) judge.Evidence {
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
		at := nanos(t, words[0])
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
			ev.Pauses = append(ev.Pauses, judge.Pause{Process: words[1], From: at, To: nanos(t, with["to"])})
		case "fault":
			ev.Faults = append(ev.Faults, judge.Fault{From: at, To: nanos(t, with["to"]), What: words[1]})
		default:
			if words[1] == "store" {
				ev.Samples = append(ev.Samples, sample(t, at, words[2], with))
				continue
			}
			ev.Events = append(ev.Events, event(t, at, words[1], trace.Kind(words[2]), with))
		}
	}
	return ev
}

const origin = int64(1_800_000_000_000_000_000)

func nanos(t *testing.T, ms string) int64 {
	t.Helper()
	if ms == "" {
		return 0
	}
	f, err := strconv.ParseFloat(ms, 64)
	if err != nil {
		t.Fatal(err)
	}
	return origin + int64(f*float64(time.Millisecond))
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

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
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

func sample(t *testing.T, at int64, what string, with map[string]string) judge.Sample {
	t.Helper()
	s := judge.Sample{At: at, Key: or(with["key"], "k")}
	if what == "down" {
		s.Err = "unavailable"
		return s
	}
	s.Stored = trace.Stored{Owner: value(what), TTLMS: milli(t, with["ttl"])}
	return s
}

func event(t *testing.T, at int64, actor string, kind trace.Kind, with map[string]string) trace.Event {
	t.Helper()
	buyer, process, _ := strings.Cut(actor, "@")
	e := trace.Event{
		At: at, Process: "api-" + or(process, "1"), Who: "buyer " + buyer, Kind: kind, Error: with["err"],
		Asked: nanos(t, with["asked"]), LeftMS: milli(t, with["left"]), Token: uint64(number(t, with["token"])),
		Attempt: number(t, with["attempt"]), Tx: number(t, with["tx"]),
	}
	_, e.Shared = with["shared"]
	e.Mechanism = with["mech"]
	switch kind {
	case trace.Asked, trace.Acquired, trace.Refused, trace.Lost, trace.Releasing, trace.Released, trace.Abandoned:
		e.Key, e.Owner = or(with["key"], "k"), "o"+or(with["owner"], buyer)
		if kind == trace.Asked && with["owner"] == "" {
			e.Owner = ""
		}
		if stored, known := with["stored"]; known {
			e.Stored = &trace.Stored{Owner: value(stored)}
		}
	default:
		e.Voucher, e.Stock, e.Version = 1, number(t, with["stock"]), number(t, with["version"])
		e.Order, e.User = number(t, with["order"]), number(t, or(with["user"], buyer))
		if kind == trace.Write {
			e.Mode = or(with["mode"], trace.ModeUnguarded)
		}
	}
	return e
}
