package deploy_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

// Each alert fires and stays quiet as deploy/prometheus/alerts_test.yml says.
func TestAlertsFire(t *testing.T) {
	promtool := testkit.Tool(t, "apt-get install prometheus", "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = root + "/deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// The first two commands in the README's section "Run it" are run as they stand there. Only the voucher's id and the
// port differ, so the order is placed with the line that the service prints. The third is lab without a command, which
// cmd/lab tests.
func TestFirstMinute(t *testing.T) {
	for _, tool := range []string{"bash", "go", "curl"} {
		testkit.Tool(t, "the README's first commands need it", tool)
	}
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Run it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for _, line := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(section, -1) {
		commands = append(commands, line[1])
	}
	want := regexp.MustCompile(`^go run \./cmd/api\ncurl -i -X POST .*/orders\ngo run \./cmd/lab$`)
	if !want.MatchString(strings.Join(commands, "\n")) {
		t.Fatalf("README.md has the commands %q, want %s", commands, want)
	}
	service := testkit.Start(t, testkit.Command{
		Path: "bash", Args: []string{"-c", commands[0]}, Dir: root,
		Env: []string{"SECKILL_ADDR=127.0.0.1:0"}, // 8080 may be taken on this machine
	})
	service.WaitLine(t, `^seckill: serving on http://127\.0\.0\.1:\d+, embedded .*lab mode$`)
	printed := service.WaitLine(t, `^curl .*$`)[0]
	if got, want := withoutNumbers(printed), withoutNumbers(commands[1]); got != want {
		t.Errorf("the service prints %q, README.md has %q", got, want)
	}
	for _, want := range [][]string{{"201 Created", `"status":"confirmed"`}, {"409 Conflict", `"code":"already_ordered"`}} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", printed)
		cmd.Dir = filepath.FromSlash(root)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", printed, err, out)
		}
		for _, part := range want {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s: no %q in\n%s", printed, part, out)
			}
		}
	}
}

func withoutNumbers(command string) string {
	return regexp.MustCompile(`:\d+/|/\d+/`).ReplaceAllString(command, "/N/")
}
