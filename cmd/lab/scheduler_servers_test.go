package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

const schedulerVerdict = `(document.querySelector('.scheduler .verdict')?.innerText ?? '')`

// tap takes a step of a schedule, as a visitor does. Without a connection it is the oldest message, which is the first
// card.
func (g *guest) tap(step string, n int) {
	g.t.Helper()
	card := fmt.Sprintf(`document.querySelector('.scheduler [data-step="%s"]')`, step)
	g.until(step+" is possible", card+` !== null`)
	g.do(card + `.click()`)
	g.until(step+" was taken", fmt.Sprintf(`document.querySelectorAll('.scheduler .moves li').length === %d`, n))
}

// The levels are played to their end with the explorer's own schedules, and what cannot be broken is said to be so.
func TestServeScheduler(t *testing.T) {
	t.Parallel()
	b, server, url, g := openLaboratory(t, "--embedded")
	g.open(url + "/#/scheduler")
	g.until("the first level is there", `document.querySelector('.scheduler [data-step=s1]') !== null`)
	g.fits("scheduler")
	levels := levelsOf(t, url)
	for _, l := range levels {
		g.do(fmt.Sprintf(`location.hash = '#/scheduler?level=%s'`, l.ID))
		g.until(l.ID+" is there", fmt.Sprintf(`document.querySelector('.levels [aria-current]')?.innerText.includes(%q) && document.querySelector('.scheduler [data-step=s1]') !== null && document.querySelectorAll('.scheduler .moves li').length === 0`, l.Lock))
		never := `[...document.querySelectorAll('.scheduler button')].find((b) => b.textContent === 'It cannot be broken with this budget').click()`
		if l.Shortest == "" {
			g.do(never)
			g.until("the answer is right", schedulerVerdict+`.startsWith('Right.')`)
		} else {
			g.do(never)
			g.until("the answer is wrong", schedulerVerdict+fmt.Sprintf(`.includes('a schedule of %d steps')`, l.Par))
			for i, step := range strings.Split(l.Shortest, "-") {
				g.tap(step, i+1)
			}
			praise := "There is no shorter schedule."
			if l.Sampled {
				praise = "The explorer knows no shorter schedule."
			}
			g.until(l.ID+" is won", schedulerVerdict+fmt.Sprintf(`.includes('Done, in %d steps. %s')`, l.Par, praise))
			g.until("it is drawn", `document.querySelector('.scheduler svg.picture') !== null`)
		}
		g.until("it is kept", `document.querySelector('.levels [aria-current] .chip')?.textContent === 'won'`)
		if l.ID == "uuid" {
			g.fits("scheduler-won")
		}
	}
	fail.Unequal(t, g.says(`document.querySelectorAll('.levels .chip').length`), fmt.Sprint(len(levels)), "levels that are won")

	link := g.says(`document.querySelector('.scheduler .command code').textContent`)
	if !strings.HasPrefix(link, url+"/#/scheduler?level=fenced") {
		t.Errorf("the link is %s", link)
	}
	g.do(`location.hash = '#/scheduler?schedule=naive%7E2%7Es1-q1-r1-t-s2-q2-r2-w1-q1'`)
	g.until("a link is played", `document.querySelectorAll('.scheduler .moves li').length === 9 && `+schedulerVerdict+`.includes('wrong releases')`)
	g.do(`[...document.querySelectorAll('.scheduler button')].find((b) => b.textContent === 'Undo').click()`)
	g.until("a step is undone", `document.querySelectorAll('.scheduler .moves li').length === 8 && location.hash.endsWith('w1')`)
	g.do(`location.hash = '#/scheduler?schedule=naive%7E2%7Es1-w1'`)
	g.until("a wrong link is refused", `document.querySelector('.scheduler .error').textContent.includes('is not possible then')`)
	g.leave(b, server, url)
}

type wonLevel struct {
	ID, Lock, Shortest string
	Par                int
	Sampled            bool
}

// levelsOf asks for the levels and their answers.
func levelsOf(t *testing.T, url string) []wonLevel {
	t.Helper()
	ask := func(method, path, body string, into any) {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		fail.NowIf(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		fail.NowIf(t, err)
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		fail.NowIf(t, err)
		fail.NowIf(t, json.Unmarshal(data, into))
	}
	var all struct{ Levels []wonLevel }
	ask(http.MethodGet, "/api/experiments", "", &all)
	for i := range all.Levels {
		ask(http.MethodPost, "/api/schedule/answer", fmt.Sprintf(`{"level":%q}`, all.Levels[i].ID), &all.Levels[i])
	}
	return all.Levels
}
