package locktest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"seckill/internal/testkit/fail"
)

// op is one operation of a history written by hand.
func op(client int, k kind, from, to int64, r result, token uint64) porcupine.Operation {
	in, out := input{kind: k, client: client, lease: 2 * client}, output{result: r}
	if out.token = token; k == write {
		in.token, out.token = token, 0
	}
	return porcupine.Operation{ClientId: client, Input: in, Call: from, Output: out, Return: to}
}

func TestModels(t *testing.T) {
	mutex, reentrant, fenced := modelRules{}, modelRules{reenters: true}, modelRules{tokens: true}
	tests := map[string]struct {
		modelRules modelRules
		ops        []porcupine.Operation
		legal      bool
	}{
		"one after the other": {mutex, []porcupine.Operation{
			op(0, try, 0, 1, done, 0), op(0, release, 2, 3, done, 0), op(1, try, 4, 5, done, 0),
		}, true},
		"two at once": {mutex, []porcupine.Operation{op(0, try, 0, 1, done, 0), op(1, try, 2, 3, done, 0)}, false},
		"refused while it was held": {mutex, []porcupine.Operation{
			op(0, try, 0, 1, done, 0), op(1, try, 2, 3, refused, 0),
		}, true},
		"refused during a release": {mutex, []porcupine.Operation{
			op(0, try, 0, 1, done, 0), op(0, release, 2, 5, done, 0), op(1, try, 3, 4, refused, 0),
		}, true},
		"refused although it was free":           {mutex, []porcupine.Operation{op(0, try, 0, 1, refused, 0)}, false},
		"refused because of another refused try": {mutex, []porcupine.Operation{op(0, try, 0, 2, refused, 0), op(1, try, 1, 3, refused, 0)}, false},
		"a split vote": {modelRules{splitVote: true}, []porcupine.Operation{
			op(0, try, 0, 2, refused, 0), op(1, try, 1, 3, refused, 0),
		}, true},
		"a split vote without another try": {modelRules{splitVote: true}, []porcupine.Operation{
			op(0, try, 0, 1, refused, 0), op(1, try, 2, 3, refused, 0),
		}, false},
		"re-entry into a plain mutex":     {mutex, []porcupine.Operation{op(0, try, 0, 1, done, 0), op(0, try, 2, 3, done, 0)}, false},
		"re-entry":                        {reentrant, []porcupine.Operation{op(0, try, 0, 1, done, 0), op(0, try, 2, 3, done, 0)}, true},
		"refused because of its own hold": {reentrant, []porcupine.Operation{op(0, try, 0, 1, done, 0), op(0, try, 2, 3, refused, 0)}, false},
		"a release of a free lock":        {mutex, []porcupine.Operation{op(0, release, 0, 1, done, 0)}, false},
		"a late release": {mutex, []porcupine.Operation{
			op(0, try, 0, 1, done, 0), op(1, removeKey, 2, 3, done, 0), op(1, try, 4, 5, done, 0), op(0, release, 6, 7, lost, 0),
		}, true},
		"a late release that succeeds": {mutex, []porcupine.Operation{
			op(0, try, 0, 1, done, 0), op(1, removeKey, 2, 3, done, 0), op(1, try, 4, 5, done, 0), op(0, release, 6, 7, done, 0),
		}, false},
		"tokens grow": {fenced, []porcupine.Operation{
			op(0, try, 0, 1, done, 1), op(0, release, 2, 3, done, 0), op(1, try, 4, 5, done, 2),
		}, true},
		"a token is granted twice": {fenced, []porcupine.Operation{
			op(0, try, 0, 1, done, 1), op(0, release, 2, 3, done, 0), op(1, try, 4, 5, done, 1),
		}, false},
		"an old write is accepted": {fenced, []porcupine.Operation{op(0, write, 0, 1, done, 2), op(1, write, 2, 3, done, 1)}, false},
		"an old write is refused":  {fenced, []porcupine.Operation{op(0, write, 0, 1, done, 2), op(1, write, 2, 3, refused, 1)}, true},
	}
	for name, test := range tests {
		markContended(test.ops)
		fail.Unequal(t, porcupine.CheckOperations(test.modelRules.model(), test.ops), test.legal, "%s: legal", name)
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.jsonl")
	t.Setenv(ReportFile, path)
	f := &results{
		behaviours: behaviours(), seen: map[Behaviour]error{},
		promises: Only(Promises{TriesOnce: Holds(), ReleasesOnce: Holds(), Reenters: Breaks("so"), TokensGrow: Holds()}, TriesOnce, ReleasesOnce, Reenters),
	}
	f.add(TriesOnce, "mine", nil)
	f.add(ReleasesOnce, "mine", &violationError{what: "it did not"})
	f.add(Reenters, "mine", &violationError{what: "it cannot"})
	fail.NowIf(t, errors.Join(f.count().report(), f.count().report()))
	content, err := os.ReadFile(path)
	fail.NowIf(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) != 2 {
		t.Fatalf("two reports made %d lines", len(lines))
	}
	var got Report
	fail.NowIf(t, json.Unmarshal([]byte(lines[1]), &got))
	const want = "mine: 4 behaviours: 1 hold, 1 break (proven), 1 not applicable, 1 DISPROVEN"
	if got.String() != want {
		t.Errorf("report = %q, want %q", got, want)
	}
	fail.Unequal(t, got.Claims[Reenters], (Verdict{Claim: "breaks", Reason: "so", Seen: "it cannot"}), "verdict")
}
