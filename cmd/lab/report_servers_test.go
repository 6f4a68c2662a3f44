package main

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

// A report, which is a file, can be read by everybody, on a phone and on a screen, and fits both.
func TestReportIsAccessible(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "report")
	b := newBench(t)
	if code, _, stderr := b.run(nil, "run", "uuid-between-compare-and-delete", "lua-atomic-release", "--report", dir); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	tab, _ := browser.Open(t)
	fail.NowIf(t, chromedp.Do(tab, chromedp.Navigate("file://"+filepath.Join(dir, "index.html"))))
	for scheme, width := range map[string]int64{"light": 390, "dark": 1280} {
		fail.NowIf(t, browser.Window(tab, width, 900, scheme))
		found, err := browser.Inaccessible(tab)
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %q, %v", scheme, found, err)
		}
		wide, err := chromedp.Run(tab, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
		if err != nil || wide != 0 {
			t.Errorf("%d px: %d px too wide, %v", width, wide, err)
		}
	}
}
