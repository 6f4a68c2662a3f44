package service_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

const dashboardFile = "../../deploy/grafana/dashboards/admission.json"

// dashboard is the part of the dashboard's JSON that the test checks.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
}

var (
	ourMetric = regexp.MustCompile(`\bseckill_[a-z0-9_]+`)
	ourLabel  = regexp.MustCompile(`(seckill_[a-z0-9_]+)\{[^}]*?\b(state|route|outcome|reason)="([^"]*)"`)
	variable  = regexp.MustCompile(`\$\{?(\w+)`)
)

// checkDashboard checks that every metric that the dashboard uses exists after an order was placed, and that it leaves
// out nothing that the flow reports of itself.
func checkDashboard(t *testing.T, metrics string) {
	data, err := os.ReadFile(dashboardFile)
	fail.NowIf(t, err)
	var d dashboard
	fail.NowIf(t, json.Unmarshal(data, &d))
	known := map[string]bool{"__rate_interval": true, "__all": true}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	for _, v := range variable.FindAllStringSubmatch(string(data), -1) {
		if !known[v[1]] {
			t.Errorf("no variable $%s", v[1])
		}
	}

	ids, asked := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels are number %d", p.ID)
		}
		ids[p.ID] = true
		if end := p.GridPos.X + p.GridPos.W; end > 24 || p.GridPos.H == 0 {
			t.Errorf("%s: not on the grid: %+v", p.Title, p.GridPos)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s: shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || strings.Count(target.Expr, "{") != strings.Count(target.Expr, "}") {
				t.Errorf("%s: %s", p.Title, target.Expr)
			}
			names := ourMetric.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s asks for no metric of ours: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				asked[name] = true
				if !strings.Contains(metrics, "\n"+name+"{") && !strings.Contains(metrics, "\n"+name+" ") {
					t.Errorf("%s: there is no %s", p.Title, name)
				}
			}
			for _, l := range ourLabel.FindAllStringSubmatch(target.Expr, -1) {
				if !regexp.MustCompile(l[1] + `\{[^}]*` + l[2] + `="` + regexp.QuoteMeta(l[3]) + `"`).MatchString(metrics) {
					t.Errorf("%s: there is no %s with %s=%q", p.Title, l[1], l[2], l[3])
				}
			}
		}
	}
	// And it leaves out nothing that the flow reports of itself.
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (seckill_(?:admission|fulfil|reconcile)_\w+) (\w+)$`).FindAllStringSubmatch(metrics, -1) {
		name := line[1]
		if !asked[name] && !asked[name+"_bucket"] {
			t.Errorf("%s is not shown", name)
		}
	}
}
