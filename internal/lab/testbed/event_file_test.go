package testbed

import (
	"os"
	"path/filepath"
	"testing"

	"seckill/internal/testkit/fail"
)

func TestJournalFollowsAFile(t *testing.T) {
	j := &eventFile{path: filepath.Join(t.TempDir(), "trace")}
	expect := func(n int) {
		t.Helper()
		events, err := j.read()
		if err != nil || len(events) != n {
			t.Fatalf("%d events, %v; want %d", len(events), err, n)
		}
	}
	expect(0) // it does not exist yet
	f, err := os.OpenFile(j.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	fail.NowIf(t, err)
	defer f.Close()
	write := func(text string) {
		t.Helper()
		fail.NowIf(t, fail.Of(f.WriteString(text)))
	}
	write(`{"at":1,"kind":"acquiring"}` + "\n")
	expect(1)
	expect(1)
	write(`{"at":2,"kind":"acquiring"}` + "\n" + `{"at":3,`)
	expect(2)
	write(`"kind":"acquiring"}` + "\n")
	expect(3)
	fail.NowIf(t, j.skipExisting())
	expect(0)
	write(`{"at":4,"kind":"acquiring"}` + "\n" + `{"at":5,"ki`) // and dies
	expect(1)
	write("nonsense\n")
	if _, err := j.read(); err == nil {
		t.Error("nonsense was read")
	}
}
