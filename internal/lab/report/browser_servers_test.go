package report_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"seckill/internal/lab/report"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

//go:embed testdata/inspect.js
var inspect string

// seen is what testdata/inspect.js tells of the page.
type seen struct {
	Problems                             []string
	Rows, Articles, Pictures, Histograms int
	Width                                int64
	Smallest                             float64 // text of a picture, in pixels
	Least                                float64 // contrast
	Beside                               bool    // an experiment stands beside its partner
	Ground                               float64 // how light the page is, from 0 to 1
}

// A report is seen in windows of every size.
func TestPageInABrowser(t *testing.T) {
	ctx, notes := browser.Open(t)
	r, dir := sample(), t.TempDir()
	fail.NowIf(t, report.WriteDir(dir, r))
	address := "file://" + filepath.Join(dir, report.File)
	fail.NowIf(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	for i, size := range [][2]int64{{1920, 1080}, {1280, 720}, {390, 844}, {320, 568}} {
		scheme := []string{"light", "dark"}[i%2]
		t.Run(fmt.Sprintf("%dx%d %s", size[0], size[1], scheme), func(t *testing.T) {
			text, err := look(ctx, size[0], size[1], scheme)
			fail.NowIf(t, err)
			requests, trouble := notes.Take()
			check(t, text, size[0], scheme, r)
			if len(trouble) > 0 {
				t.Errorf("the browser complains: %q", trouble)
			}
			for _, u := range requests {
				if u != address && !strings.HasPrefix(u, "data:") {
					t.Errorf("asked the network for %s", u)
				}
			}
		})
	}
}

// A report's pictures are played, too: each stands at its end, whole, and goes back and forth.
func TestReportIsPlayed(t *testing.T) {
	ctx, _ := browser.Open(t)
	r, dir := sample(), t.TempDir()
	fail.NowIf(t, report.WriteDir(dir, r))
	fail.NowIf(t, chromedp.Do(ctx, chromedp.Navigate("file://"+filepath.Join(dir, report.File))))
	for _, c := range []struct{ what, expression string }{
		{"every picture has a player", `document.querySelectorAll('.player svg.picture').length === document.querySelectorAll('svg.picture').length`},
		{"they stand at their ends", `[...document.querySelectorAll('.player .line')].every((l) => l.getAttribute('aria-valuenow') === l.getAttribute('aria-valuemax'))`},
		{"they show all of it", `[...document.querySelectorAll('.player [data-s]')].every((m) => !m.classList.contains('later'))`},
		{"and go back", `(() => {
			const one = document.querySelector('.player');
			one.querySelector('.keys button').click();
			return one.querySelectorAll('[data-s].later').length > 0 && one.querySelector('.told').textContent.length > 10;
		})()`},
		{"and ask nothing", `[...document.querySelectorAll('.player .ask')].every((a) => a.hidden)`},
	} {
		got, err := chromedp.Run(ctx, chromedp.Evaluate[bool](c.expression))
		if err != nil || !got {
			t.Errorf("%s: %v, %v", c.what, got, err)
		}
	}
	found, err := browser.Inaccessible(ctx)
	if err != nil || len(found) > 0 {
		t.Errorf("%q, %v", found, err)
	}
}

// look returns what testdata/inspect.js tells of the page in a window of that size.
func look(ctx context.Context, width, height int64, scheme string) (string, error) {
	if err := browser.Window(ctx, width, height, scheme); err != nil {
		return "", err
	}
	return chromedp.Run(ctx, chromedp.Evaluate[string](inspect))
}

// check holds what the page is seen to be against what it is to be.
func check(t *testing.T, text string, width int64, scheme string, r report.Report) {
	t.Helper()
	var got seen
	fail.NowIf(t, json.Unmarshal([]byte(text), &got))
	t.Logf("smallest text of a picture %.1f px, least contrast %.1f", got.Smallest, got.Least)
	for _, p := range got.Problems {
		t.Error(p)
	}
	if got.Width > width {
		t.Errorf("the page is %d wide in a window of %d", got.Width, width)
	}
	pictures, histograms := 0, 0
	for _, e := range r.Entries {
		pictures += len(e.Result.More)
		if e.Result.Witness != nil {
			pictures++
		}
		if e.Result.Latency != nil {
			histograms++
		}
	}
	if got.Rows != len(r.Entries) || got.Articles != len(r.Entries) {
		t.Errorf("%d rows and %d experiments of %d", got.Rows, got.Articles, len(r.Entries))
	}
	if got.Pictures != pictures || got.Histograms != histograms {
		t.Errorf("%d of %d pictures, %d of %d histograms", got.Pictures, pictures, got.Histograms, histograms)
	}
	smallest := 11.5 // on a phone, where the picture scrolls
	if width == 1280 {
		smallest = 13 // what a projector shows
	}
	if got.Smallest < smallest {
		t.Errorf("the smallest text of a picture has %.1f px", got.Smallest)
	}
	if want := width >= 1700; got.Beside != want {
		t.Errorf("an experiment stands beside its partner: %v", got.Beside)
	}
	fail.Unequal(t, got.Ground > 0.5, (scheme == "light"), "the page's ground is %.2f in the %s scheme", got.Ground, scheme)
}
