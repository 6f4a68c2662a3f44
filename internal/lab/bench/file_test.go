package bench_test

import (
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lab/bench"
)

const head = `"format":"seckill by hand","version":1`

// A file is read whole, or nothing of it is used.
func TestReadFile(t *testing.T) {
	const (
		setup = `"setup":{"lock":"red","processes":2,"lease":5,"wait":0,"renew":true}`
		moves = `"moves":[{"do":"acquire","process":2,"after_ms":0,"beside":true},{"do":"kill-node","node":3,"after_ms":250},
			{"do":"let-lease-run-out","after_ms":7}]`
	)
	s, script, err := bench.ReadFile(strings.NewReader("{" + head + "," + setup + "," + moves + "}"))
	want := bench.Setup{Lock: "red", Processes: 2, Lease: 5, Renew: true}
	if err != nil || s != want || script != "a2~0.h3-250.x-7" {
		t.Errorf("%+v, %q, %v", s, script, err)
	}
	one := func(move string) string { return "{" + head + "," + setup + `,"moves":[` + move + "]}" }
	many := func(n int) string {
		return one(strings.Repeat(`{"do":"acquire","process":1,"after_ms":0},`, n-1) + `{"do":"acquire","process":1,"after_ms":0}`)
	}
	if _, _, err := bench.ReadFile(strings.NewReader(many(bench.MaxMoves))); err != nil {
		t.Errorf("the most moves: %v", err)
	}
	for name, c := range map[string]struct {
		text   string
		reason bench.Reason
	}{
		"nothing":            {"", bench.NotJSON},
		"no JSON":            {"acquire", bench.NotJSON},
		"cut off":            {"{" + head, bench.NotJSON},
		"something after it": {one(`{"do":"acquire","process":1,"after_ms":0}`) + "x", bench.NotJSON},
		"a list":             {"[]", bench.NotJSON},
		"null":               {"null", bench.WrongFormat},
		"another format":     {`{"format":"k6","version":1}`, bench.WrongFormat},
		"a later version":    {`{"format":"seckill by hand","version":2,"more":true}`, bench.WrongVersion},
		"no version":         {`{"format":"seckill by hand"}`, bench.WrongVersion},
		"an unknown field":   {"{" + head + "," + setup + `,"then":1,` + moves + "}", bench.NotJSON},
		"a wrong type":       {one(`{"do":"acquire","process":"1","after_ms":0}`), bench.NotJSON},
		"a fraction":         {one(`{"do":"acquire","process":1,"after_ms":0.5}`), bench.NotJSON},
		"no setup":           {"{" + head + "," + moves + "}", bench.WrongLock},
		"too many processes": {strings.Replace(one(""), `"processes":2`, `"processes":5`, 1), bench.WrongProcesses},
		"no moves":           {one(""), bench.NoSteps},
		"too many moves":     {many(bench.MaxMoves + 1), bench.TooManySteps},
		"an unknown action":  {one(`{"do":"explode","process":1,"after_ms":0}`), bench.WrongMove},
		"no such process":    {one(`{"do":"acquire","process":3,"after_ms":0}`), bench.WrongMove},
		"less than nobody":   {one(`{"do":"acquire","process":-1,"after_ms":0}`), bench.WrongMove},
		"no process":         {one(`{"do":"acquire","after_ms":0}`), bench.WrongMove},
		"no such node":       {one(`{"do":"kill-node","node":4,"after_ms":0}`), bench.WrongMove},
		"a node and process": {one(`{"do":"kill-node","node":1,"process":1,"after_ms":0}`), bench.WrongMove},
		"not with this lock": {one(`{"do":"fail-over","after_ms":0}`), bench.WrongMove},
		"too late":           {one(`{"do":"acquire","process":1,"after_ms":600001}`), bench.WrongTime},
		"before the last":    {one(`{"do":"acquire","process":1,"after_ms":-1}`), bench.WrongTime},
		"too long":           {strings.Repeat(" ", bench.MaxFile) + one(""), bench.TooLarge},
		"a long name":        {one(fmt.Sprintf(`{"do":%q,"after_ms":0}`, strings.Repeat("x", 5000))), bench.WrongMove},
	} {
		s, script, err := bench.ReadFile(strings.NewReader(c.text))
		wantReason(t, name, err, c.reason)
		if script != "" {
			t.Errorf("%s: it has the script %q of %+v", name, script, s)
		}
	}
}
