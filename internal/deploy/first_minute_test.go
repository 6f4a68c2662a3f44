package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Every command in the README's section "Run it" is run as it stands there, in its order. Only the voucher's id
// and the port differ, so the order is placed with the line that the service prints.
func TestFirstMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the service and an experiment")
	}
	for _, tool := range []string{"bash", "go", "curl"} {
		testkit.Tool(t, "the README's first commands need it", tool)
	}
	commands := firstMinute(t)
	want := []string{`^go run \./cmd/api$`, `^curl -i -X POST .*/orders$`, `^go run \./cmd/lab$`}
	if len(commands) != len(want) {
		t.Fatalf("README.md has the commands %q, want three that match %q", commands, want)
	}
	for i, command := range commands {
		if !regexp.MustCompile(want[i]).MatchString(command) {
			t.Fatalf("command %d is %q, want one that matches %q", i+1, command, want[i])
		}
	}
	serve, order, experiment := commands[0], commands[1], commands[2]

	// go run keeps the program that it has linked, so the time for that does not count below.
	for _, warm := range []string{serve + " -help", "go run ./cmd/lab help"} {
		if out, err := shell(t, warm).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", warm, err, out)
		}
	}

	service := testkit.Start(t, testkit.Command{
		Path: "bash", Args: []string{"-c", serve}, Dir: root,
		Env: []string{"SECKILL_ADDR=127.0.0.1:0"}, // 8080 may be taken on this machine
	})
	service.WaitLine(t, `^seckill: serving on http://127\.0\.0\.1:\d+, embedded .*lab mode$`)
	printed := service.WaitLine(t, `^curl .*$`)[0]
	if got, want := withoutNumbers(printed), withoutNumbers(order); got != want {
		t.Errorf("the service prints %q, README.md has %q", got, want)
	}
	for _, want := range [][]string{{"201 Created", `"status":"confirmed"`}, {"409 Conflict", `"code":"already_ordered"`}} {
		out, err := shell(t, printed).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", printed, err, out)
		}
		for _, part := range want {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s: no %q in\n%s", printed, part, out)
			}
		}
	}

	cmd := shell(t, experiment)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", experiment, err, out)
	}
	for _, want := range []string{
		`buyer\s+\d+\s+releases,\s+which\s+deletes\s+the\s+lock\s+of\s+buyer\s+\d+`, // as README.md quotes it
		`(?m)^naive-wrong-release breaks: .*wrong releases [1-9]`,
		`(?m)^  go run \./cmd/lab run uuid-looks-first `, // and what README.md names next
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s did not break as README.md says, want %s:\n%s", experiment, want, out)
		}
	}
}

// firstMinute returns the commands of the README's section "Run it".
func firstMinute(t *testing.T) []string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "README.md"), "\n## Run it\n")
	if !found {
		t.Fatal(`README.md has no section "Run it"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		for _, line := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(block[1], -1) {
			commands = append(commands, line[1])
		}
	}
	return commands
}

// shell returns a command that a reader would type in the project's folder.
func shell(t *testing.T, command string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir = filepath.FromSlash(root)
	cmd.Env = os.Environ()
	return cmd
}

func withoutNumbers(command string) string {
	return regexp.MustCompile(`:\d+/|/\d+/`).ReplaceAllString(command, "/N/")
}
