package report_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/testkit/fail"
)

func html(t *testing.T, r report.Report) string {
	t.Helper()
	var out strings.Builder
	fail.NowIf(t, report.HTML(&out, r))
	return out.String()
}

// The page says how each experiment came out. It is self-contained: it refers to no other file.
func TestPageTellsTheOutcome(t *testing.T) {
	r := sample()
	page := html(t, r)
	fail.Without(t, page,
		"42 of 44 as expected", "1 was skipped", "no verdict, api-2 did not start: exit status 1", "expected breaks, observed holds",
		"ZooKeeper is not installed", "redis-server 7.0.15", "go run ./cmd/lab run experiment-07 --seed 7", "BASE_URL=http://127.0.0.1:8080",
		"document “Redisson in detail”, section “Deleting somebody else&#39;s lock”",
	)
	outside := regexp.MustCompile(`(?i)<(script[^>]* src|link rel="stylesheet|iframe|img)|@import|url\(["']?[^#"']|(src|href)="[^#d]`)
	fail.Unequal(t, outside.FindString(page), "", "the page refers to something else")
	fine := sample()
	fine.Entries = fine.Entries[:4]
	if page := html(t, fine); !strings.Contains(page, "All 4</h1>") && !strings.Contains(page, "All 4 as expected") {
		t.Error("four of four are not all")
	}
}

func TestPageOfNothing(t *testing.T) {
	html(t, report.Report{})
	html(t, report.Report{Entries: []report.Entry{{}}})
}

// Texts of experiments may contain anything, and are never markup.
func TestPageEscapes(t *testing.T) {
	const bad = `<script>alert("x")</script>`
	r := report.Report{Command: bad, Entries: []report.Entry{{
		Hypothesis: bad, Why: bad, K6: bad, Setup: []byte(bad),
		Result: finding.Result{ID: "x", Title: bad, Group: bad, Failed: bad, Answers: map[string]int{bad: 1}, Witness: &finding.Witness{
			Summary: i18n.Plain(bad), Key: bad, Lanes: []finding.Lane{{
				Name: bad, Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, To: 9, Label: i18n.Plain(bad)}}, Marks: []finding.Mark{{Label: i18n.Plain(bad), Who: bad}},
			}},
		}},
	}}}
	if page := html(t, r); strings.Contains(page, bad[:len("<script>alert")]) {
		t.Error("what an experiment says became markup")
	}
}

func TestWriteDirReplacesThePage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out", "deep")
	some := sample()
	some.Entries = some.Entries[:2]
	for _, r := range []report.Report{some, {}} {
		fail.NowIf(t, report.WriteDir(dir, r))
		got, err := os.ReadFile(filepath.Join(dir, report.File))
		fail.NowIf(t, err)
		if string(got) != html(t, r) {
			t.Error("the file is not the page")
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

func TestWriteDirWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	fail.NowIf(t, os.WriteFile(file, nil, 0o600))
	err := report.WriteDir(filepath.Join(file, "out"), report.Report{})
	if _, is := errors.AsType[*fs.PathError](err); !is {
		t.Errorf("a folder below a file: %v", err)
	}
}
