package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"seckill/internal/lab/course"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit/fail"
)

// The page shows the course as the command line has it, and a hint that it asks for counts there.
func TestCourseOfThePage(t *testing.T) {
	all, err := experiments.All()
	fail.NowIf(t, err)
	f := startOn(t, testbed.Options{Embedded: true}, all, make(chan struct{}))
	f.want(http.StatusBadRequest, "no lesson", http.MethodPost, "/api/course/hint", `{"lesson":"none"}`)
	f.want(http.StatusOK, `"hints":[{"en":"`, http.MethodPost, "/api/course/hint", `{"lesson":"wrong-del"}`)
	p, err := course.Load(f.course)
	if err != nil || p.Lessons["wrong-del"].Hints != 1 {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	var shown struct {
		Next    string
		Lessons []struct {
			ID    string
			Title map[string]string
			More  bool
			Tasks []struct{ Command string }
		}
	}
	fail.NowIf(t, json.Unmarshal([]byte(f.want(http.StatusOK, "", http.MethodGet, "/api/course", "")), &shown))
	if len(shown.Lessons) != len(course.Lessons()) || shown.Next != "no-lock" || !shown.Lessons[3].More || shown.Lessons[3].Title["zh"] == "" ||
		shown.Lessons[0].Tasks[0].Command != "go run ./cmd/lab check 1" {
		t.Errorf("the page has %+v", shown)
	}
}
