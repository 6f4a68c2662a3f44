package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

// The player of the run, and what it shows.
const (
	ofPlayer = `document.querySelectorAll('.outcome-of .player')`
	stepAt   = `Number(` + ofPlayer + `[0]?.querySelector('.line').getAttribute('aria-valuenow'))`
	stepsIn  = `Number(` + ofPlayer + `[0].querySelector('.line').getAttribute('aria-valuemax'))`
	told     = `(` + ofPlayer + `[0]?.querySelector('.told').innerText ?? '')`
	asked    = `(` + ofPlayer + `[0]?.querySelector('.ask:not([hidden]) button:not(:disabled)') != null)`
	shownOf  = `[...` + ofPlayer + `[0].querySelectorAll('svg.picture .mark[data-s]')].filter((m) => !m.classList.contains('later'))`
)

// untilAsked goes on with a key until the player asks.
func (g *guest) untilAsked(key string) {
	g.t.Helper()
	for n := 0; g.says(asked) != "true"; n++ {
		before := g.says(stepAt)
		if n > 60 {
			g.t.Fatal("it asks nothing")
		}
		g.press(key)
		g.until("it goes on", asked+` || `+stepAt+` > `+before)
	}
}

// A visitor plays a run's history: it stops before the cause, and asks. He answers, steps back and forth, and takes the
// link along: another page stands at the same step. The partner goes in step.
func TestServePlayer(t *testing.T) {
	t.Parallel()
	b, server, url, g := openLaboratory(t, "--embedded")
	g.open(url + "/#/naive-wrong-release?lease=350ms&step=9")
	g.until("the link says what it leads to", `document.getElementById('run-help')?.textContent.includes('step 9 of a run')`)
	fail.Unequal(t, g.says(`document.getElementById('p-lease').value`), "350ms", "the number of the link")
	g.do(`document.querySelector('input[value=none]').click(); document.querySelector('.play .go').click()`)
	g.until("it stands at the step", stepAt+` === 9`)

	g.open(url + "/#/uuid-between-compare-and-delete")
	g.until("another experiment is there", `document.querySelector('.experiment .of')?.textContent.includes('uuid-between-compare-and-delete')`)
	g.do(`document.querySelector('input[value=none]').click(); document.querySelector('.play .go').click()`)
	g.until("it is told from the beginning", stepAt+` === 1 && `+told+`.includes('Buyer 1 gets the lock') && `+shownOf+`.length === 0`)
	g.do(ofPlayer + `[0].querySelector('.line').focus()`)
	g.untilAsked(kb.ArrowRight)
	if ahead := g.says(`document.querySelectorAll('.outcome-of .tick.wrong, .outcome-of .tick.cause').length`); ahead != "0" {
		t.Errorf("the line gives %s answers away", ahead)
	}
	stopped := g.says(stepAt)
	g.press(kb.ArrowRight)
	fail.Unequal(t, g.says(stepAt), stopped, "the step behind the question")
	found, err := browser.Inaccessible(g.tab)
	if err != nil || len(found) > 0 {
		t.Errorf("with a question: %q, %v", found, err)
	}
	right := `[...` + ofPlayer + `[0].querySelectorAll('.ask button')].find((b) => b.textContent.includes('deletes the lock of buyer 2'))`
	g.do(right + `.click()`)
	g.until("the answer is judged", ofPlayer+`[0].querySelector('.ask .question').textContent === 'Right.' && `+told+`.includes('The release of buyer 1 deletes the lock of buyer 2')`)
	fail.Unequal(t, g.says(ofPlayer+`[0].querySelectorAll('.state.believes').length`), "1", "buyers who believe and do not hold")
	g.press(kb.ArrowLeft)
	g.until("it goes back, and asks no more", stepAt+` === `+stopped+` && !`+asked)
	g.press(" ")
	g.until("it plays", stepAt+` > `+stopped)
	g.press(" ")
	g.until("it pauses", ofPlayer+`[0].querySelector('.play-pause').textContent === 'Play'`)
	g.press(kb.End)
	g.until("it comes to its end", stepAt+` === `+stepsIn+` && !document.querySelector('.outcome-of .summary').hidden && document.querySelector('.afterwards .go').offsetParent !== null`)
	for range 2 {
		g.press(kb.ArrowLeft)
	}
	g.until("it went back", stepAt+` === `+stepsIn+` - 2`)
	at, says := g.says(stepAt), g.says(told)
	link := g.says(`document.querySelector('.afterwards code').textContent`)
	fail.Unequal(t, link, url+"/#/uuid-between-compare-and-delete?step="+at, "the link")

	tab, notes := browser.Tab(g.tab, t)
	other := &guest{t, tab, notes}
	other.open(link)
	other.until("another page stands at the same step", stepAt+` === `+at+` && `+told+fmt.Sprintf(` === %q`, says))

	t.Run("the partner in step", func(t *testing.T) {
		g.t = t
		g.do(`document.querySelector('.partner button').click()`)
		g.until("both are shown", ofPlayer+`.length === 2 && `+ofPlayer+`[1].querySelector('svg.picture') !== null`)
		g.do(ofPlayer + `[0].querySelector('.line').focus()`)
		g.press(kb.End)
		g.until("it is at its end, too", `[...`+ofPlayer+`].every((p) => p.querySelector('.line').getAttribute('aria-valuenow') === p.querySelector('.line').getAttribute('aria-valuemax'))`)
		g.press(kb.Home)
		g.until("it is at its beginning, too", `[...`+ofPlayer+`].every((p) => p.querySelector('.line').getAttribute('aria-valuenow') === '1')`)
		fail.NowIf(t, browser.Window(g.tab, 1920, 1000, "light"))
		if heights := g.says(`new Set([...document.querySelectorAll('.outcome-of figure')].map((f) => Math.round(f.getBoundingClientRect().top))).size`); heights != "1" {
			t.Errorf("the pictures stand at %s heights", heights)
		}
		g.fits("player-result")
		g.inChinese(`[...` + ofPlayer + `].length === 2 && [...` + ofPlayer + `].every((p) => /[一-龥]/.test(p.querySelector('.told').textContent))`)
	})
	g.t = t
	other.untroubled(url)
	if strings.Contains(g.says(`document.body.innerText`), "undefined") {
		t.Error("something is undefined")
	}
	g.leave(b, server, url)
}
