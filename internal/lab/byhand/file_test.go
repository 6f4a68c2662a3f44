package byhand_test

import (
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lab/byhand"
)

const head = `"format":"seckill by hand","version":1`

// A file is read whole, or nothing of it is used.
func TestReadFile(t *testing.T) {
	const (
		setup = `"setup":{"lock":"red","processes":2,"lease":5,"wait":0,"renew":true}`
		moves = `"moves":[{"do":"acquire","process":2,"after_ms":0,"beside":true},{"do":"kill-node","node":3,"after_ms":250},
			{"do":"let-lease-run-out","after_ms":7}]`
	)
	s, script, err := byhand.ReadFile(strings.NewReader("{" + head + "," + setup + "," + moves + "}"))
	want := byhand.Setup{Lock: "red", Processes: 2, Lease: 5, Renew: true}
	if err != nil || s != want || script != "a2~0.h3-250.x-7" {
		t.Errorf("%+v, %q, %v", s, script, err)
	}
	one := func(move string) string { return "{" + head + "," + setup + `,"moves":[` + move + "]}" }
	many := func(n int) string {
		return one(strings.Repeat(`{"do":"acquire","process":1,"after_ms":0},`, n-1) + `{"do":"acquire","process":1,"after_ms":0}`)
	}
	if _, _, err := byhand.ReadFile(strings.NewReader(many(byhand.MaxMoves))); err != nil {
		t.Errorf("the most moves: %v", err)
	}
	for name, c := range map[string]struct {
		text   string
		reason byhand.Reason
	}{
		"nothing":            {"", byhand.NotJSON},
		"no JSON":            {"acquire", byhand.NotJSON},
		"cut off":            {"{" + head, byhand.NotJSON},
		"something after it": {one(`{"do":"acquire","process":1,"after_ms":0}`) + "x", byhand.NotJSON},
		"a list":             {"[]", byhand.NotJSON},
		"null":               {"null", byhand.WrongFormat},
		"another format":     {`{"format":"k6","version":1}`, byhand.WrongFormat},
		"a later version":    {`{"format":"seckill by hand","version":2,"more":true}`, byhand.WrongVersion},
		"no version":         {`{"format":"seckill by hand"}`, byhand.WrongVersion},
		"an unknown field":   {"{" + head + "," + setup + `,"then":1,` + moves + "}", byhand.NotJSON},
		"a wrong type":       {one(`{"do":"acquire","process":"1","after_ms":0}`), byhand.NotJSON},
		"a fraction":         {one(`{"do":"acquire","process":1,"after_ms":0.5}`), byhand.NotJSON},
		"no setup":           {"{" + head + "," + moves + "}", byhand.WrongLock},
		"too many processes": {strings.Replace(one(""), `"processes":2`, `"processes":5`, 1), byhand.WrongProcesses},
		"no moves":           {one(""), byhand.NoSteps},
		"too many moves":     {many(byhand.MaxMoves + 1), byhand.TooManySteps},
		"an unknown action":  {one(`{"do":"explode","process":1,"after_ms":0}`), byhand.WrongMove},
		"no such process":    {one(`{"do":"acquire","process":3,"after_ms":0}`), byhand.WrongMove},
		"less than nobody":   {one(`{"do":"acquire","process":-1,"after_ms":0}`), byhand.WrongMove},
		"no process":         {one(`{"do":"acquire","after_ms":0}`), byhand.WrongMove},
		"no such node":       {one(`{"do":"kill-node","node":4,"after_ms":0}`), byhand.WrongMove},
		"a node and process": {one(`{"do":"kill-node","node":1,"process":1,"after_ms":0}`), byhand.WrongMove},
		"not with this lock": {one(`{"do":"fail-over","after_ms":0}`), byhand.WrongMove},
		"too late":           {one(`{"do":"acquire","process":1,"after_ms":600001}`), byhand.WrongTime},
		"before the last":    {one(`{"do":"acquire","process":1,"after_ms":-1}`), byhand.WrongTime},
		"too long":           {strings.Repeat(" ", byhand.MaxFile) + one(""), byhand.TooLarge},
		"a long name":        {one(fmt.Sprintf(`{"do":%q,"after_ms":0}`, strings.Repeat("x", 5000))), byhand.WrongMove},
	} {
		s, script, err := byhand.ReadFile(strings.NewReader(c.text))
		wantReason(t, name, err, c.reason)
		if script != "" {
			t.Errorf("%s: it has the script %q of %+v", name, script, s)
		}
	}
}
