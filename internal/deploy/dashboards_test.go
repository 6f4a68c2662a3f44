package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// dashboard is the part of a dashboard's JSON that the tests check.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		Targets     []struct{ Expr string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(root + "/deploy/grafana/dashboards/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		fail.NowIf(t, err)
		var d dashboard
		fail.NowIf(t, json.Unmarshal(data, &d), "%s", file)
		all[filepath.Base(file)] = d
	}
	return all
}

// Names and numbers are unique, every variable is one that there is, and each panel asks the data source that the
// reader chooses for metrics that the service has. Grafana's schema is in the package @grafana/schema of npm, as types
// of TypeScript: with it, tsc accepts these files.
func TestDashboards(t *testing.T) {
	uids, source := map[string]string{}, sources(t, "internal", ".go")
	for name, d := range dashboards(t) {
		if other, taken := uids[d.UID]; taken || d.UID != "seckill-"+strings.TrimSuffix(name, ".json") {
			t.Errorf("%s has the uid %q; %q has it too: %v", name, d.UID, other, taken)
		}
		uids[d.UID] = name
		known := []string{"__rate_interval", "__all"}
		for _, v := range d.Templating.List {
			known = append(known, v.Name)
		}
		for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(read(t, "deploy/grafana/dashboards/"+name), -1) {
			if !slices.Contains(known, v[1]) {
				t.Errorf("%s: no variable $%s", name, v[1])
			}
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels are number %d", name, p.ID)
			}
			ids[p.ID] = true
			for _, target := range p.Targets {
				wantMetrics(t, name, target.Expr, source)
			}
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("%s, %s: shows nothing, or asks %q", name, p.Title, p.Datasource.UID)
			}
		}
	}
}

// The provisioned files are those that docker-compose.yml mounts.
func TestGrafanaIsProvisioned(t *testing.T) {
	project := everything(t)
	grafana := project.Services["grafana"]
	sources := read(t, "deploy/grafana/provisioning/datasources/seckill.yml")
	for name, port := range map[string]string{"prometheus": "9090", "jaeger": "16686"} {
		if !strings.Contains(sources, "url: http://"+name+":"+port+"\n") || !strings.Contains(sources, "type: "+name+"\n") {
			t.Errorf("%s is no data source", name)
		}
		if port := project.Services[name].Ports[0].Target; !strings.Contains(sources, fmt.Sprint(name, ":", port)) {
			t.Errorf("%s listens on %d", name, port)
		}
	}
	mounted := map[string]string{}
	for _, v := range grafana.Volumes {
		mounted[v.Target] = v.Source
	}
	path := regexp.MustCompile(`path: (\S+?)\}`).FindStringSubmatch(read(t, "deploy/grafana/provisioning/dashboards/seckill.yml"))
	if path == nil || mounted[path[1]] != abs(t, "deploy/grafana/dashboards") || mounted["/etc/grafana/provisioning"] != abs(t, "deploy/grafana/provisioning") {
		t.Errorf("dashboards are looked for in %v; mounted are %v", path, mounted)
	}
	home := setting(grafana, "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH")
	if _, err := os.Stat(filepath.Join(root, "deploy/grafana/dashboards", filepath.Base(home))); err != nil || filepath.Dir(home) != path[1] {
		t.Errorf("the first page is %s: %v", home, err)
	}
}

// Each alert has its section in the runbook, both its unit tests, and metrics that the service has. promtool plays the
// unit tests.
func TestAlertsAreExplained(t *testing.T) {
	rules, tests, runbook := read(t, "deploy/prometheus/alerts.yml"), read(t, "deploy/prometheus/alerts_test.yml"), read(t, "docs/runbook.md")
	var alerts, sections []string
	for _, match := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, match[1])
		fail.Without(t, tests, "- name: "+match[1]+" fires\n", "- name: "+match[1]+" stays quiet\n")
	}
	for _, match := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(runbook, -1) {
		sections = append(sections, match[1])
	}
	if len(alerts) == 0 || !slices.Equal(sections, alerts) {
		t.Errorf("docs/runbook.md has sections for\n%v\nthere are alerts\n%v", sections, alerts)
	}
	wantMetrics(t, "deploy/prometheus/alerts.yml", rules, sources(t, "internal", ".go"))
}

// wantMetrics checks that the service has the metrics that a text asks for.
func wantMetrics(t *testing.T, where, text, source string) {
	t.Helper()
	for _, metric := range unique(regexp.MustCompile(`\bseckill_[a-z_]+`).FindAllString(text, -1)) {
		if !exists(source, metric) {
			t.Errorf("%s asks for %s, which the service does not have", where, metric)
		}
	}
}
