package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

const alertsFolder = root + "/docs/prometheus"

var alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)

// Each alert fires and stays quiet as docs/prometheus/alerts_test.yml says.
func TestAlertsFire(t *testing.T) {
	promtool := testkit.Tool(t, "apt-get install prometheus", "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = alertsFolder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Each alert has its section in the runbook, both its unit tests, and metrics that the service has.
func TestAlertsAreExplained(t *testing.T) {
	rules, tests, runbook := read(t, "docs/prometheus/alerts.yml"), read(t, "docs/prometheus/alerts_test.yml"), read(t, "docs/runbook.md")
	var alerts []string
	for _, match := range alertName.FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, match[1])
		for _, test := range []string{"- name: " + match[1] + " fires\n", "- name: " + match[1] + " stays quiet\n"} {
			if !strings.Contains(tests, test) {
				t.Errorf("docs/prometheus/alerts_test.yml lacks %q", test)
			}
		}
	}
	var sections []string
	for _, match := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(runbook, -1) {
		sections = append(sections, match[1])
	}
	if len(alerts) == 0 || !slices.Equal(sections, alerts) {
		t.Errorf("docs/runbook.md has sections for\n%v\nthere are alerts\n%v", sections, alerts)
	}
	source := goSource(t)
	for _, metric := range regexp.MustCompile(`seckill_[a-z_]+`).FindAllString(rules, -1) {
		if !strings.Contains(source, `"`+metric+`"`) {
			t.Errorf("docs/prometheus/alerts.yml asks for %s, which the service does not have", metric)
		}
	}
}

// goSource is the text of every Go file of the service that is no test.
func goSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				var data []byte
				data, err = os.ReadFile(path)
				all.Write(data)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
