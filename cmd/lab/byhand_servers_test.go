package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

// live is the bench that goes on.
const live = `document.querySelector('.bench .live')`

// hands drive a bench.
type hands struct{ *guest }

// begin opens a bench by its link, and starts it.
func (h hands) begin(url, setup string) {
	h.t.Helper()
	h.open(url + "/#/bench?" + setup)
	h.until("it can be started", `document.querySelector('.bench .play .go')?.disabled === false`)
	h.do(`document.querySelector('.bench .play .go').click()`)
}

// end ends the bench that goes on.
func (h hands) end() {
	h.t.Helper()
	h.do(live + `.querySelector('.row > button.quiet').click()`)
	h.until("it has ended", `document.querySelector('.bench .play').offsetParent !== null && !`+live+`.querySelector('.drivers').offsetParent`)
}

// move makes moves after so many, each after the end of the one before, and returns what came of the last one.
func (h hands) move(after int, moves ...string) (told string) {
	h.t.Helper()
	for i, move := range moves {
		button := fmt.Sprintf(`document.querySelector('[data-do=%s]')`, move)
		h.until(move+" is possible", button+`?.getAttribute('aria-disabled') === 'false'`)
		h.do(button + `.click()`)
		told = h.told(after + i + 1)
	}
	return told
}

// told waits for the end of a move.
func (h hands) told(n int) string {
	h.t.Helper()
	line := fmt.Sprintf(`(document.querySelectorAll('.moves li')[%d]?.textContent ?? '…')`, n-1)
	h.until(fmt.Sprintf("move %d has ended", n), `!`+line+`.endsWith('…')`)
	_, told, _ := strings.Cut(h.says(line), "→ ")
	return told
}

// judged waits until the judge names an anomaly.
func (h hands) judged(what string) {
	h.t.Helper()
	h.until("the judge names it", live+fmt.Sprintf(`.querySelector('.verdict.bad')?.textContent.includes(%q)`, what))
}

// The wrong release of naive-wrong-release by hand: start and four clicks. The link repeats it, and so does the file.
func TestServeByHand(t *testing.T) {
	t.Parallel()
	b, server, url, g := openLaboratory(t, "--embedded")
	h := hands{g}
	h.begin(url, "lock=naive&processes=3&lease=10&wait=30")
	g.until("its buttons are there", `document.querySelectorAll('[data-do]').length > 20`)
	const places = `[...document.querySelectorAll('[data-do]')].map((b) => Math.round(b.getBoundingClientRect().top + scrollY)).join()`
	before := g.says(places)
	fail.Unequal(t, h.move(0, "a1", "x", "a2", "r1"), "done", "the release")
	h.judged("wrong releases 1")
	fail.Unequal(t, g.says(places), before, "the places of the buttons")
	g.until("the picture shows it", live+`.querySelector('svg.picture').textContent.includes('deletes B’s lock')`)
	g.until("it can be acquired by a third", `document.querySelector('[data-do=a3]').getAttribute('aria-disabled') === 'false'`)
	g.do(`document.querySelector('[data-do=a3]').focus()`)
	g.press("\r")
	h.told(5)
	fail.Unequal(t, g.says(`document.activeElement.dataset.do`), "a3", "the focus is on")
	g.until("the third is drawn", live+`.querySelectorAll('svg.picture .lane').length === 4`)
	g.portrait("lab-by-hand")
	g.do(live + `.querySelectorAll('details').forEach((d) => { d.open = true; })`)
	g.fits("bench")

	link := g.says(live + `.querySelector('.command code').textContent`)
	if !strings.HasPrefix(link, url+"/#/bench?lock=naive&processes=3&lease=10&wait=30&script=a1%7E") {
		t.Errorf("the link is %s", link)
	}
	kept := h.save()
	h.end()
	g.do(fmt.Sprintf(`location.hash = %q`, link[strings.Index(link, "#"):]))
	h.replays(`wrong releases 1`)
	h.end()

	t.Run("a file", func(t *testing.T) {
		g.t = t
		h.load(strings.Replace(kept, `"acquire"`, `"explode"`, 1))
		g.until("a wrong file is refused", `document.querySelector('.bench .error').textContent.includes('no move “explode”')`)
		h.load(kept[:len(kept)/2])
		g.until("half a file is refused", `document.querySelector('.bench .error').textContent.includes('The file is not understood')`)
		h.load(kept + strings.Repeat(" ", 64<<10))
		g.until("a long file is refused", `document.querySelector('.bench .error').textContent.includes('64 KiB are the most')`)
		if run := g.says(`document.querySelector('.bench .play').offsetParent !== null`); run != "true" {
			t.Error("a wrong file has begun something")
		}
		g.do(`location.hash = '#/bench?lock=lua&processes=2&lease=5&wait=0'`)
		g.until("another bench is chosen", `document.getElementById('bench-lock').value === 'lua' && document.querySelector('.bench .error').textContent === ''`)
		h.load(kept)
		g.until("its setup is there", `document.getElementById('bench-lock').value === 'naive' && document.getElementById('bench-processes').value === '3'`)
		h.replays(`wrong releases 1`)
		h.move(5, "p1") // a paused process does not outlive the page either
	})
	g.t = t
	g.leave(b, server, url)
}

// replays makes the moves of the script that the form has.
func (h hands) replays(found string) {
	h.t.Helper()
	h.until("the form has a script", `document.querySelector('.bench .play').innerText.includes('a script of 5 moves')`)
	if wrong, err := browser.Inaccessible(h.tab); err != nil || len(wrong) > 0 {
		h.t.Errorf("before the start: %q, %v", wrong, err)
	}
	fail.Unequal(h.t, h.says(`document.querySelector('.bench .play .go').textContent`), "Replay its 5 moves", "the main button")
	h.do(`document.querySelector('.bench .play .go').click()`)
	h.until("it comes to the same", `!document.querySelector('.bench .play').offsetParent && document.querySelectorAll('.moves li').length === 5 && `+
		live+fmt.Sprintf(`.querySelector('.verdict.bad')?.textContent.includes(%q)`, found))
}

// save saves what was done, as a visitor does.
func (h hands) save() string {
	h.t.Helper()
	folder := h.t.TempDir()
	fail.NowIf(h.t, fail.Of(chromedp.Call(h.tab, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
	})))
	h.do(live + `.querySelector('a[download]').click()`)
	var kept []byte
	testkit.Until(h.t, "the file is saved", func() bool {
		kept, _ = os.ReadFile(filepath.Join(folder, "by-hand-naive.json"))
		return strings.HasSuffix(string(kept), "}\n")
	})
	return string(kept)
}

// load chooses a file.
func (h hands) load(text string) {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "script.json")
	fail.NowIf(h.t, os.WriteFile(path, []byte(text), 0o600))
	fail.NowIf(h.t, chromedp.Do(h.tab, chromedp.SetUploadFiles(`.bench input[type=file]`, []string{path}, chromedp.NodeReady)))
}
