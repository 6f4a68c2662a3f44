package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.jsonl")
	const lines = `{"mechanism":"none","holds":0,"breaks":1,"claims":{"tries-once":{"claim":"breaks","reason":"nobody is refused"}},"order":["tries-once"]}
{"mechanism":"lua","holds":1,"claims":{"tries-once":{"claim":"holds","disproven":true},"reenters":{"claim":"n.a.","reason":"x"}},"order":["reenters","tries-once"]}
{"mechanism":"lua","holds":1,"claims":{"tries-once":{"claim":"holds"}},"order":["tries-once"]}
{"mechanism":"lua","claims":{"tries-once":{"claim":"n.a.","reason":"in virtual time"}},"order":["tries-once"]}
{"mechanism":"rw","disproven":1,"claims":{"readers-share":{"claim":"holds","disproven":true}},"order":["readers-share"]}
`
	fail.NowIf(t, os.WriteFile(path, []byte(lines), 0o600))
	var out strings.Builder
	fail.NowIf(t, run([]string{path}, &out))
	const want = `| behaviour | lua | none | rw |
|---|---|---|---|
| reenters | n.a. |  |  |
| tries-once | holds | **breaks** |  |
| readers-share |  |  | DISPROVEN |

| mechanism | behaviours | hold | break (proven) | not applicable | disproven |
|---|---|---|---|---|---|
| lua | 2 | 1 | 0 | 1 | 0 |
| none | 1 | 0 | 1 | 0 | 0 |
| rw | 1 | 0 | 0 | 0 | 1 |
`
	if out.String() != want {
		t.Errorf("report:\n%s\nwant:\n%s", out.String(), want)
	}
	if err := run(nil, &out); err == nil {
		t.Error("without a file: no error")
	}
	fail.NowIf(t, os.WriteFile(path, []byte("no JSON\n"), 0o600))
	if err := run([]string{path}, &out); err == nil {
		t.Error("a file that is not a report: no error")
	}
}
