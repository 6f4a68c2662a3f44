package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

// guest is a tab that shows the laboratory's page.
type guest struct {
	t     *testing.T
	tab   context.Context
	notes *browser.Notes
}

// says evaluates an expression.
func (g *guest) says(expression string) string {
	g.t.Helper()
	s, err := chromedp.Run(g.tab, chromedp.Evaluate[string](`String(`+expression+`)`))
	fail.NowIf(g.t, err, "%s", expression)
	return s
}

// until waits until an expression is true.
func (g *guest) until(what, expression string) {
	g.t.Helper()
	defer func() { // what is shown instead
		if g.t.Failed() {
			g.t.Logf("the page says: %s", g.says(`document.body.innerText`))
		}
	}()
	testkit.Until(g.t, what, func() bool { return g.says(expression) == "true" })
}

func (g *guest) do(script string) {
	g.t.Helper()
	fail.NowIf(g.t, chromedp.Do(g.tab, chromedp.Evaluate[chromedp.Void](script+"; undefined")), "%s", script)
}

// press sends a key to the element that has the focus.
func (g *guest) press(key string) {
	g.t.Helper()
	fail.NowIf(g.t, chromedp.Do(g.tab, chromedp.KeyEvent(key)))
}

func (g *guest) open(url string) {
	g.t.Helper()
	fail.NowIf(g.t, chromedp.Do(g.tab, chromedp.Navigate(url)))
}

// untroubled fails the test if the browser has complained of anything but the one refusal that the test brings about,
// or if the page has asked for anything elsewhere.
func (g *guest) untroubled(url string) {
	g.t.Helper()
	requests, trouble := g.notes.Take()
	for _, r := range requests {
		if !strings.HasPrefix(r, url+"/") {
			g.t.Errorf("the page has asked for %s", r)
		}
	}
	for _, said := range trouble {
		if strings.Contains(said, "responded with a status of 400") {
			continue
		}
		g.t.Errorf("the browser complains: %s", said)
	}
}

const (
	lastOutcome = `(document.querySelector('.outcome-of')?.innerText ?? '')`
	bothShown   = `[...document.querySelectorAll('.outcome-of')].filter((o) => o.querySelector('figure svg.picture')).length === 2`
	runs        = `(document.getElementById('results-link')?.textContent ?? '')`
)

// fits looks at what is shown in two widths, two schemes and two languages, and in soak in four widths and each scheme.
// The folder in PAGE_SHOTS gets the pictures.
func (g *guest) fits(name string) {
	g.t.Helper()
	grounds := map[string]string{"light": "rgb(245, 244, 239)", "dark": "rgb(19, 21, 25)"}
	all := os.Getenv(testkit.SoakVar) == "1" || os.Getenv("PAGE_SHOTS") != ""
	for i, width := range []int64{390, 768, 1280, 1920} {
		for scheme, ground := range grounds {
			if checked := (scheme == "light") == (width == 1280) && (width == 390 || width == 1280); !all && !checked {
				continue
			}
			fail.NowIf(g.t, browser.Window(g.tab, width, 1000, scheme))
			g.do(fmt.Sprintf(`document.querySelector('#languages [lang=%s]').click(); scrollTo(0, 0)`, []string{"en", "zh"}[(i+i/2)%2]))
			g.until("the page is painted", fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, ground))
			if strings.HasSuffix(name, "-result") {
				g.until("the pictures are there", `document.querySelectorAll('.outcome-of figure svg.picture').length > 0`)
			}
			if strings.HasSuffix(name, "-result") || name == "bench" {
				size := map[bool]string{true: "narrow", false: "wide"}[width == 390]
				g.until("they are "+size, fmt.Sprintf(`[...document.querySelectorAll('.scroll.wide svg.picture')].every((p) => p.classList.contains(%q))`, size))
			}
			shot := fmt.Sprintf("lab-%s-%d-%s", name, width, scheme)
			if got := g.says(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); got != "0" {
				g.t.Errorf("%s: %s px too wide", shot, got)
			}
			if small := g.says(`[...document.querySelectorAll('button, a.button')].filter((b) => b.offsetParent && b.offsetHeight < 40).map((b) => b.outerHTML).join()`); small != "" {
				g.t.Errorf("%s: too small for a finger: %s", shot, small)
			}
			if wide := g.says(`[...document.querySelectorAll('button, a.button')].filter((b) => b.offsetParent && b.scrollWidth > b.clientWidth + 1).map((b) => b.outerHTML).join()`); wide != "" {
				g.t.Errorf("%s: wider than its button: %s", shot, wide)
			}
			fail.Unequal(g.t, g.says(`document.querySelector('main').innerText.match(/\b(?:null|undefined|NaN|\[object)\b/g)?.join() ?? ''`), "", "%s says", shot)
			if scrolled := g.says(`[...document.querySelectorAll('.scroll.wide, .results .scroll')].filter((f) => f.offsetParent && f.scrollWidth > f.clientWidth).length`); width == 390 && scrolled != "0" {
				g.t.Errorf("%s: %s have to be scrolled", shot, scrolled)
			}
			if (scheme == "light") == (width == 1280) && (width == 390 || width == 1280) { // contrast and layout, each once
				found, err := browser.Inaccessible(g.tab)
				if err != nil || len(found) > 0 {
					g.t.Errorf("%s: %q, %v", shot, found, err)
				}
			}
			if dir := os.Getenv("PAGE_SHOTS"); dir != "" {
				g.do(`document.querySelector('.stage .outcome-of, .bench .live')?.scrollIntoView()`)
				fail.NowIf(g.t, browser.Shoot(g.tab, dir, shot))
			}
		}
	}
	g.do(`document.querySelector('#languages [lang=en]').click()`)
}

// inChinese looks for sentences that are left in English when the page is in Chinese. Commands and what the documents
// are called stay as they are. The page is in Chinese when what is given is true.
func (g *guest) inChinese(when ...string) {
	g.t.Helper()
	g.do(`document.querySelector('#languages [lang=zh]').click()`)
	for _, one := range append(when, `document.documentElement.lang === 'zh-CN'`) {
		g.until("it is in Chinese", one)
	}
	const left = `(() => {
		const shown = document.querySelector('main').cloneNode(true);
		for (const own of shown.querySelectorAll('code, pre, .sources')) own.remove();
		return (shown.textContent.match(/[a-z]{2,}(?:,? [a-z]{2,}){2,}/g) ?? []).join('; ');
	})()`
	fail.Unequal(g.t, g.says(left), "", "left in English")
	g.do(`document.querySelector('#languages [lang=en]').click()`)
}

// portrait keeps what is shown now in the folder in PAGE_SHOTS: for docs/pictures.
func (g *guest) portrait(name string) {
	g.t.Helper()
	dir := os.Getenv("PAGE_SHOTS")
	if dir == "" {
		return
	}
	fail.NowIf(g.t, browser.Window(g.tab, 1280, 1000, "light"))
	g.do(`document.querySelector('.live').scrollIntoView()`)
	fail.NowIf(g.t, browser.Shoot(g.tab, dir, name))
}

// openLaboratory starts lab serve and opens a browser.
func openLaboratory(t *testing.T, flags ...string) (b program, server *testkit.Process, url string, g *guest) {
	t.Helper()
	b = newProgram(t)
	server = testkit.Start(t, b.command(nil, append([]string{"serve", "--addr", "127.0.0.1:0"}, flags...)...))
	url = server.WaitLine(t, `^lab: serving on (http://127\.0\.0\.1:\d+), `)[1]
	tab, notes := browser.Open(t)
	return b, server, url, &guest{t, tab, notes}
}

// A visitor chooses an experiment, predicts, watches it run, is told, and runs its partner beside it; then changes a
// number, which turns the outcome, and cancels a run. After Ctrl-C nothing is left.
func TestServe(t *testing.T) {
	t.Parallel()
	b, server, url, g := openLaboratory(t, "--embedded")
	g.open(url + "/")
	g.until("the experiments are listed", `document.querySelectorAll('.groups li').length > 80`)
	g.fits("list")
	g.inChinese()
	for _, typed := range []string{"oversell", "split brain", "gc pause", "TTL"} {
		g.do(fmt.Sprintf(`{ const f = document.getElementById('filter'); f.value = %q; f.dispatchEvent(new Event('input')); }`, typed))
		if got := g.says(`[...document.querySelectorAll('.groups li')].filter((i) => i.offsetParent).length > 0`); got != "true" {
			t.Errorf("%q finds nothing", typed)
		}
	}
	g.do(`{ const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input')); f.focus(); }`)
	g.press("wrong-release")
	g.until("one is left", `[...document.querySelectorAll('.groups li')].filter((i) => i.offsetParent).length === 1`)
	g.do(`document.querySelector('.groups a[href="#/naive-wrong-release"]').click()`)
	g.until("the question is asked", `document.activeElement.textContent.includes("Is another buyer's lock deleted?")`)
	if got := g.says(`document.querySelector('.play .go').disabled`); got != "true" {
		t.Error("it can be run without a prediction")
	}
	if told := g.says(`document.body.innerText.includes('until the queue is empty')`); told != "false" {
		t.Error("the page gives the outcome away")
	}

	g.do(`document.querySelector('.what summary').click()`)
	g.inChinese(`document.querySelector('.what details').open`)
	g.until("what was open is open after the change of the language", `document.documentElement.lang === 'en' && document.querySelector('.what details').open`)
	g.do(`document.querySelector('.crumbs a').click()`)
	g.until("the way back leads to the place that was left", `document.activeElement.getAttribute('href') === '#/naive-wrong-release'`)
	g.do(`document.activeElement.click()`)
	g.until("the question is asked again", `document.activeElement.textContent.includes("Is another buyer's lock deleted?")`)

	t.Run("predict and run", func(t *testing.T) {
		g.t = t
		g.do(`document.querySelector('input[value=breaks]').click()`)
		g.do(`{ const k = document.getElementById('kind'); k.value = 'wrong_releases'; k.dispatchEvent(new Event('change')); }`)
		g.do(`document.querySelector('.play .go').focus()`)
		g.do(`globalThis.drawnAt = null; new MutationObserver(() => {
			const picture = document.querySelector('.live svg');
			if (picture) drawnAt ??= picture.getBoundingClientRect().top;
		}).observe(document.querySelector('.live'), { childList: true, subtree: true })`)
		g.press("\r")
		g.until("it is told", lastOutcome+`.includes('Right!')`)
		if got := g.says(`drawnAt === null || drawnAt >= 0 && drawnAt < innerHeight / 2`); got != "true" {
			t.Errorf("the picture of the run begins at %s px of %s", g.says(`drawnAt`), g.says(`innerHeight`))
		}
		fail.Without(t, g.says(lastOutcome), "It breaks: wrong releases", "wrong releases", "until the queue is empty", "Why")
		g.until("the picture is there", `document.querySelector('.outcome-of svg.picture')?.querySelectorAll('.mark.deleted.wrong').length > 0`)
	})
	t.Run("the partner beside it", func(t *testing.T) {
		g.t = t
		g.do(`document.querySelector('.partner button').click()`)
		g.until("both are shown", bothShown)
		if said := g.says(`document.querySelectorAll('.outcome-of')[1].innerText`); !strings.Contains(said, "uuid-looks-first") || !strings.Contains(said, "It holds") {
			t.Errorf("the partner's result: %s", said)
		}
		// Its lease ends during the work all the same: amber, and not green.
		fail.Unequal(t, g.says(`document.querySelectorAll('.outcome-of')[1].querySelector('.verdict.waiting')?.textContent.includes('What still breaks: ')`), "true", "what holds, but still breaks")
		g.do(`document.querySelector('.outcome-of .scale input').click()`)
		g.until("both are on one axis", bothShown+` && new Set([...document.querySelectorAll('.outcome-of')].map((o) =>
			[...o.querySelector('figure svg').querySelectorAll('.axis text')]).map((l) => l.at(0).textContent + l.at(-1).textContent)).size === 1`)
		g.fits("naive-result")
	})
	t.Run("in Chinese", func(t *testing.T) {
		g.t = t
		// On a busy machine a run may have more pictures, of anomalies that it is not about.
		g.inChinese(bothShown, `[...document.querySelectorAll('.outcome-of figure')].every((f) => /[一-龥]/.test(f.querySelector('svg.picture')?.textContent))`)
	})
	t.Run("a changed number turns it", func(t *testing.T) {
		g.t = t
		g.do(`document.querySelector('.numbers-form summary').click()`)
		set := func(value string) {
			g.do(fmt.Sprintf(`{ const l = document.getElementById('p-lease'); l.value = %q; l.dispatchEvent(new Event('input')); }`, value))
		}
		set("5h")
		g.do(`document.querySelector('.play .go').click()`)
		g.until("what is out of bounds is refused", `document.querySelector('.play .error').textContent.includes('cannot have --lease "5h"')`)
		set("2s")
		fail.Unequal(t, g.says(`document.querySelector('.command code').textContent`), "go run ./cmd/lab run naive-wrong-release --lease 2s", "the command")
		g.do(`document.querySelector('input[value=holds]').click(); document.querySelector('.play .go').click()`)
		g.until("the change turned it", lastOutcome+`.includes('The change turned the outcome')`)
		if said := g.says(lastOutcome); !strings.Contains(said, "It holds") || !strings.Contains(said, "Right!") || strings.Contains(said, "until the queue is empty") || strings.Contains(said, "undefined") {
			t.Errorf("the result: %s", said)
		}
	})
	var complete string // how many runs have ended by themselves, in the words of the link to them
	t.Run("watch it, and cancel", func(t *testing.T) {
		g.t = t
		g.do(`{ const s = document.getElementById('slow'); s.value = '5'; s.dispatchEvent(new Event('change')); }`)
		g.do(`{ const b = document.getElementById('p-buyers'); b.value = '16'; b.dispatchEvent(new Event('input')); }`) // they take 24 s: it goes on when it is cancelled
		if got := g.says(`document.querySelector('.command code').textContent`); !strings.HasSuffix(got, " --lease 2s --work 1500ms --pause 1250ms --buyers 16") {
			t.Errorf("five times as slowly: %q", got)
		}
		// What is drawn is noted where it is drawn: a busy machine may not ask in time.
		g.do(`globalThis.drawn = new Set(); new MutationObserver(() => drawn.add(
			document.querySelectorAll('.live svg > .bar, .live svg > .mark').length)).observe(document.querySelector('.live'), { childList: true, subtree: true })`)
		start := func() {
			complete = g.says(runs)
			g.do(`document.querySelector('input[value=none]').click(); document.querySelector('.play .go').click()`)
			g.until("it is live", `!document.querySelector('.live').hidden`)
		}
		start()
		g.until("lanes are there", `document.querySelectorAll('.live svg.picture .lane').length > 2`)
		g.until("they grow", `drawn.size > 2`)
		g.until("the wrong release is named", `/wrong releases [1-9]/.test(document.querySelector('.live .verdict.bad')?.textContent)`)
		g.until("it is drawn", `/deletes \w’s lock/.test(document.querySelector('.live svg.picture').textContent)`)
		g.portrait("lab-live")
		const cancel = `!document.querySelector('.live').hidden && (document.querySelector('.live button').click(), true)`
		for g.says(cancel) != "true" { // the machine is so busy that the run is over
			start()
		}
		g.until("it ends", `document.querySelector('.live').hidden`)
		if after := g.says(runs); after != complete {
			t.Errorf("after the cancelled run: %s, before it: %s", after, complete)
		}
	})
	t.Run("the results", func(t *testing.T) {
		g.t = t
		g.do(`document.getElementById('results-link').click()`)
		g.until("all but the cancelled one are listed", fmt.Sprintf(`%q.includes('(' + document.querySelectorAll('.results tbody tr').length + ')')`, complete))
		if said := g.says(`document.querySelector('main').innerText`); !strings.Contains(said, "2 of 2 predictions were right") || !strings.Contains(said, "lease 2s instead of") {
			t.Errorf("the results: %s", said)
		}
		g.fits("results")
	})
	g.t = t
	g.leave(b, server, url)
}

// leave ends the laboratory as Ctrl-C does, and checks that nothing is left of it.
func (g *guest) leave(b program, server *testkit.Process, url string) {
	g.t.Helper()
	g.untroubled(url)
	fail.NowIf(g.t, syscall.Kill(server.PID(), syscall.SIGINT))
	if err := server.Wait(); err != nil {
		g.t.Errorf("it ended with %v:\n%s", err, server.Output())
	}
	b.nothingLeft()
}
