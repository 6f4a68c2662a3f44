package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// program is the laboratory's program, beside which the service's is built, and a folder for temporary files that must
// be empty in the end.
type program struct {
	t    *testing.T
	lab  string
	temp string
}

func newProgram(t *testing.T) program {
	t.Helper()
	testkit.Program(t, "api")
	return program{t, testkit.Program(t, "lab"), t.TempDir()}
}

// command runs lab as a child in its own process group, with its temporary files in temp.
func (b program) command(env []string, args ...string) testkit.Command {
	return testkit.Command{Path: b.lab, Args: args, Env: append([]string{"TMPDIR=" + b.temp}, env...)}
}

// run runs lab to its end.
func (b program) run(env []string, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	c := b.command(env, args...)
	cmd := exec.CommandContext(b.t.Context(), c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// nothingLeft waits until no process and no folder of a run is left.
func (b program) nothingLeft() {
	b.t.Helper()
	testkit.Until(b.t, "no process and no folder is left of lab", func() bool {
		folders, err := os.ReadDir(b.temp)
		fail.NowIf(b.t, err)
		return len(folders) == 0 && len(b.processes()) == 0
	})
}

// processes returns those that have the program's folder in their environment: everything that lab starts inherits it.
func (b program) processes() (found []string) {
	b.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	fail.NowIf(b.t, err)
	for _, path := range all {
		environ, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(environ), "TMPDIR="+b.temp+"\x00") {
			continue // gone meanwhile, or not ours
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err == nil && len(line) > 0 { // else it has ended, and its parent has not waited for it
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func results(t *testing.T, stdout string) (all []finding.Result) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var r finding.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("not one object on each line: %v\n%s", err, stdout)
		}
		all = append(all, r)
	}
	return all
}

func requireServers(t *testing.T) {
	t.Helper()
	for _, server := range []string{"redis-server", "mariadbd"} {
		testkit.Require(t, testkit.Installed(server))
	}
}

func TestRunOnRealServers(t *testing.T) {
	t.Parallel()
	requireServers(t)
	b := newProgram(t)
	dir := filepath.Join(t.TempDir(), "report")

	code, stdout, stderr := b.run(nil, "run", "no-lock", "--json", "conditional-stock-no-lock", "--report", dir)
	all := results(t, stdout)
	if code != exitOK || len(all) != 2 {
		t.Fatalf("exit code %d, %d results; stderr:\n%s", code, len(all), stderr)
	}
	weak := all[0]
	if weak.ID != "no-lock" || weak.Observed != finding.Breaks || !weak.AsExpected || weak.Anomalies[finding.Oversold] == 0 ||
		weak.Witness == nil || weak.Orders == 0 || weak.Requests == 0 || weak.Latency == nil || weak.DurationMS == 0 {
		t.Errorf("%+v", weak)
	}
	if !strings.HasPrefix(weak.Engine.Redis, "redis-server ") || !strings.HasPrefix(weak.Engine.Database, "MariaDB ") {
		t.Errorf("engine %+v", weak.Engine)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil || !strings.Contains(string(page), `id="no-lock"`) || !strings.Contains(string(page), "<svg") {
		t.Errorf("the report: %v, %d bytes", err, len(page))
	}
	b.nothingLeft()

	// With the partner's mechanism the verdict is the opposite, and the exit code says so.
	code, stdout, stderr = b.run(nil, "run", "no-lock", "--swap", "--json")
	all = results(t, stdout)
	if code != exitFailed || len(all) != 1 || all[0].Observed != finding.Holds || all[0].AsExpected {
		t.Errorf("swapped: exit code %d, %+v; stderr:\n%s", code, all, stderr)
	}

	// A person gets the picture, and with -v also the table.
	code, stdout, _ = b.run(nil, "run", "no-lock", "-v")
	for _, want := range []string{"Hypothesis:", "Why:", "buyer ", "EXPERIMENT", "1 of 1 as expected"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, want %q in\n%s", code, want, stdout)
		}
	}
	b.nothingLeft()
}

// withoutServers is the environment of a machine without servers.
func withoutServers(t *testing.T) []string {
	t.Helper()
	path := t.TempDir() // what every system has, and no server
	for _, name := range []string{"sh", "rm", "grep", "sleep"} {
		program, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(program, filepath.Join(path, name))
		}
		fail.NowIf(t, err)
	}
	return []string{"PATH=" + path, "REQUIRE_INFRA=", "SECKILL_TEST_ZOOKEEPER=/nowhere", "SECKILL_TEST_MYSQL_ROOT=/nowhere"}
}

// Without servers on the PATH, experiments run on what the laboratory brings where that is meaningful, and name it; the
// others are skipped by name.
func TestRunWithoutServers(t *testing.T) {
	t.Parallel()
	b := newProgram(t)
	environment := withoutServers(t)
	stock := []string{
		"no-lock", "local-two-processes", "lua-lease-too-short", "watchdog-keeps-long-holder", "paused-holder", "paused-holder-fenced",
		"paused-holder-version", "red-paused-holder", "release-before-commit", "commit-before-release",
	}
	played := append([]string{"naive-holder-killed", "red-node-restarts-empty"}, stock...)
	missing := []string{"zk-holder-killed", "zk-session-expired", "red-node-restarts-durable"}
	code, stdout, stderr := b.run(environment, slices.Concat([]string{"run", "--json"}, played, missing)...)
	all := results(t, stdout)
	if code != exitOK || len(all) != len(played)+len(missing) {
		t.Fatalf("exit code %d, %d results; stderr:\n%s", code, len(all), stderr)
	}
	for _, r := range all {
		if slices.Contains(played, r.ID) {
			redis := strings.Contains(r.Engine.Redis, "embedded") || r.Engine.Redis == "" && r.Lock == "local"
			if !r.AsExpected || !redis || slices.Contains(stock, r.ID) && !strings.Contains(r.Engine.Database, "SQLite") {
				t.Errorf("%+v", r)
			}
			continue
		}
		if r.Skipped == "" || r.Observed != "" || !strings.Contains(stderr, r.ID) {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}
	_, stdout, _ = b.run(environment, append([]string{"run"}, missing...)...)
	fail.Without(t, strings.Join(strings.Fields(stdout), " "),
		"3 skipped", "red-node-restarts-durable", "redis-server not found on PATH: apt-get install redis-server, brew install redis",
		"make infra", "brew install redis mariadb zookeeper", "go run ./cmd/lab run zk-holder-killed zk-session-expired red-node-restarts-durable",
	)
	b.nothingLeft()
}

// However lab is ended, no process and no folder is left.
func TestNothingStaysBehind(t *testing.T) {
	t.Parallel()
	requireServers(t)
	b := newProgram(t)
	for name, end := range map[string]func(*testkit.Process){
		"Ctrl-C": func(p *testkit.Process) {
			self, err := os.FindProcess(p.PID())
			if err == nil {
				err = self.Signal(os.Interrupt)
			}
			fail.If(t, err)
		},
		"SIGKILL": func(p *testkit.Process) { p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Start(t, b.command(nil, "run", "all"))
			p.WaitLine(t, `^\[ ?\d+/\d+\] `) // servers and processes are at work
			end(p)
			<-p.Done()
			if name == "Ctrl-C" && (!strings.Contains(p.Output(), "\nstopping: ") || !strings.Contains(p.Output(), "stopped after")) {
				t.Errorf("it does not say that it stops, and was stopped:\n%s", p.Output())
			}
			b.nothingLeft()
		})
	}
}

// Without a command, and without a server on the machine, a lock breaks before the reader's eyes; what is to be run
// next can be run.
func TestWelcome(t *testing.T) {
	t.Parallel()
	b := newProgram(t)
	code, stdout, stderr := b.run(withoutServers(t))
	for try := 1; code == exitOK && strings.Contains(stdout, "not as expected") && try < 5; try++ { // a lease and a busy machine
		code, stdout, stderr = b.run(withoutServers(t))
	}
	if code != exitOK {
		t.Fatalf("exit code %d; stderr:\n%s", code, stderr)
	}
	fail.Without(t, stdout, "Welcome", "━━ holds the lock", "╍╍ believes so", "✗", "SQLite", firstExperiment+" breaks: ")
	if strings.Contains(stdout, "not as expected") {
		t.Errorf("it did not break:\n%s", stdout)
	}
	b.nothingLeft()

	next := regexp.MustCompile(`(?m)^  go run \./cmd/lab (.*?)  +`).FindAllStringSubmatch(stdout, -1)
	if len(next) != 3 {
		t.Fatalf("it names %d commands, want 3:\n%s", len(next), stdout)
	}
	for _, command := range next {
		args := strings.Fields(command[1])
		if args[0] == "run" {
			_, err := parseRun(everyExperiment(t), args[1:])
			fail.If(t, err, "%q", command[1])
			continue
		}
		if code, _, stderr := call(t, args...); code != exitOK {
			t.Errorf("%q: exit code %d, %s", command[1], code, stderr)
		}
	}
}

// A changed number is played and told: the written explanation need not be true of it, and is not shown. A sweep plays
// several of them.
func TestChangedNumbers(t *testing.T) {
	t.Parallel()
	b := newProgram(t)
	e, err := everyExperiment(t).Find("naive-wrong-release")
	fail.NowIf(t, err)
	code, stdout, stderr := b.run(withoutServers(t), "run", e.ID, "--lease", "5s")
	text := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"with lease 5s instead of 400ms it", "1 with changed numbers", "Buyer 1 gets the lock at "} {
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("exit code %d, want %q in\n%s\n%s", code, want, stdout, stderr)
		}
	}
	for _, untrue := range []string{"Hypothesis:", "Why:", e.Title, "NOT AS EXPECTED"} {
		if strings.Contains(text, untrue) {
			t.Errorf("it says %q:\n%s", untrue, stdout)
		}
	}
	code, stdout, _ = b.run(withoutServers(t), "run", e.ID, "--lease", "5s", "--predict", "holds", "--json")
	if r := results(t, stdout)[0]; code != exitOK || !slices.Equal(r.Changed, []finding.Change{{Name: "lease", From: "400ms", To: "5s"}}) ||
		r.Turned != (r.Observed == finding.Holds) || *r.PredictionRight != r.Turned || !strings.HasSuffix(r.Command, "run naive-wrong-release --lease 5s") {
		t.Errorf("exit code %d, %+v", code, r)
	}

	// In slow motion, and without what a busy machine may decide: which of the two values breaks. A soak test says
	// that.
	args := []string{"sweep", e.ID, "--lease", "1200ms..5s", "--work", "900ms", "--pause", "750ms", "--steps", "2", "--runs", "1"}
	code, stdout, stderr = b.run(withoutServers(t), append(args, "--json")...)
	var values []string
	for line := range strings.Lines(stdout) {
		var step sweepStep
		if err := json.Unmarshal([]byte(line), &step); err != nil || step.ID != e.ID || step.Parameter != "lease" || step.Broke+step.Held != 1 {
			t.Errorf("%v: %+v", err, step)
		}
		values = append(values, step.Value)
	}
	if code != exitOK || !slices.Equal(values, []string{"1.2s", "5s"}) || !strings.Contains(stderr, "[2/2] --lease 5s") {
		t.Errorf("exit code %d, values %q, progress\n%s", code, values, stderr)
	}
	// Without its servers no run comes to a verdict, and it says why.
	code, stdout, stderr = b.run(withoutServers(t), "sweep", "zk-session-expired", "--lease", "1s..2s", "--steps", "2", "--runs", "1")
	if code != exitFailed || !strings.Contains(stdout, "1 without a verdict") || !strings.Contains(stderr, "2 of 2 runs without a verdict: ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	b.nothingLeft()
}
