package main

import (
	"os"
	"path/filepath"
	"testing"

	"seckill/internal/lab/course"
	"seckill/internal/testkit/fail"
)

// The course on the page: a hint is given, what is predicted and run there counts, and the command line goes on from
// it.
func TestServeCourse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine")
	b, server, url, g := openLaboratory(t, "--embedded", "--dir", dir)
	g.open(url + "/#/course")
	g.until("the lessons are there", `document.querySelectorAll('.course .lessons > li').length === 15`)
	g.do(`document.querySelector('#lesson-1-hint').click()`)
	g.until("a hint is given", `document.querySelectorAll('.course .hints li').length === 1`)
	g.fits("course")
	g.do(`document.querySelector('.course .do a').click()`)
	g.until("the experiment is there", `document.querySelector('input[value="holds"]') !== null`)
	g.do(`document.querySelector('input[value=holds]').click(); document.querySelector('.play .go').click()`)
	g.until("it was run", runs+` !== ''`)
	g.do(`location.hash = '#/course'`)
	g.until("it counts", `document.querySelector('.course li.next .of .chip')?.textContent === '1 of 3 tasks'`)
	p, err := course.Load(dir)
	fail.NowIf(t, err)
	if mine := p.Lessons["no-lock"]; mine.Hints != 1 || len(mine.Tasks) != 1 || mine.Tasks[0].Right || mine.Tasks[0].Answer != "holds" {
		t.Errorf("the progress is %+v", mine)
	}
	g.leave(b, server, url)
	fail.If(t, fail.Of(os.Stat(filepath.Join(dir, course.ProgressFile))))
}
