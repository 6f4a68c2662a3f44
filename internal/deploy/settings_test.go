package deploy_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSettingsOfTheService(t *testing.T) {
	known := settingsOfTheService(t)
	// These settings have no place in the containers: a name would be that of all instances, and the others are for experiments.
	left := []string{"SECKILL_INSTANCE", "SECKILL_LOCK_WATCHDOG", "SECKILL_IDS", "SECKILL_LAB_TRACE", "SECKILL_LAB_NAME"}
	services := everyService(t)
	api := services["api"]
	told := slices.Collect(maps.Keys(api.Environment))
	if got, want := slices.Sorted(slices.Values(append(told, left...))), known; !slices.Equal(got, want) {
		t.Errorf("told or left out are %v, the service knows %v", got, want)
	}
	want := "seckill:" + secrets()["MYSQL_PASSWORD"] + "@tcp(mysql:3306)/seckill"
	if got := setting(api, "SECKILL_MYSQL_DSN"); got != want {
		t.Errorf("DSN is %q, want %q", got, want)
	}
	for _, name := range []string{"api", "balancer"} {
		if !services[name].ReadOnly || !slices.Equal(services[name].CapDrop, []string{"ALL"}) {
			t.Errorf("%s: may write to its image, or has capabilities", name)
		}
	}
}

// An operator finds every setting of api -help in docs/operations.md, and every setting that docker-compose.yml takes from
// the caller in .env.example.
func TestSettingsAreDocumented(t *testing.T) {
	has := func(text, name string) bool { return regexp.MustCompile(`\b` + name + `\b`).MatchString(text) }
	operations := read(t, "docs/operations.md")
	for _, name := range settingsOfTheService(t) {
		if !has(operations, name) {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
	example := read(t, ".env.example")
	taken := regexp.MustCompile(`\$\{((?:SECKILL|OTEL|MYSQL|API|GRAFANA|JAEGER|PROMETHEUS)_[A-Z0-9_]+)`).FindAllStringSubmatch(read(t, "docker-compose.yml"), -1)
	if len(taken) < 30 {
		t.Fatalf("only %d variables found", len(taken))
	}
	for _, name := range taken {
		if !regexp.MustCompile(`(?m)^#?` + name[1] + `=`).MatchString(example) {
			t.Errorf(".env.example does not list %s", name[1])
		}
	}
}

// settingsOfTheService returns the variables that the help of the service names.
func settingsOfTheService(t *testing.T) []string {
	t.Helper()
	help := exec.CommandContext(t.Context(), "go", "run", "./cmd/api", "-help")
	help.Dir = abs(t, ".")
	text, err := help.Output()
	if err != nil {
		t.Fatalf("api -help: %v", err)
	}
	var known []string
	for _, line := range regexp.MustCompile(`(?m)^ +SECKILL_[A-Z_]+(?: or SECKILL_[A-Z_]+)?$|^OTEL_[A-Z_]+`).FindAllString(string(text), -1) {
		known = append(known, strings.Split(strings.TrimSpace(line), " or ")...)
	}
	slices.Sort(known)
	return known
}

// The example names every secret, contains none, and lists only settings that are used.
func TestEnvExample(t *testing.T) {
	example, compose := read(t, ".env.example"), read(t, "docker-compose.yml")
	lines := regexp.MustCompile(`(?m)^(#?)([A-Z][A-Z0-9_]*)=(.*)$`).FindAllStringSubmatch(example, -1)
	needed := map[string]bool{}
	for _, line := range lines {
		commented, name, value := line[1] == "#", line[2], line[3]
		if !regexp.MustCompile(`\$\{` + name + `[:-]`).MatchString(compose) {
			t.Errorf("%s is not read by docker-compose.yml", name)
		}
		if !commented {
			needed[name] = true
			if value != "" {
				t.Errorf("%s has a value", name)
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(secrets())); !slices.Equal(got, want) {
		t.Errorf("asks for %v, want %v", got, want)
	}
}
