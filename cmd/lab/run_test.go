package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// bench is a folder with the binaries of the laboratory and the service, and a folder for
// temporary files that must be empty in the end.
type bench struct {
	t    *testing.T
	lab  string
	temp string
}

func newBench(t *testing.T) bench {
	t.Helper()
	testkit.Program(t, "api")
	return bench{t, testkit.Program(t, "lab"), t.TempDir()}
}

// command runs lab as a child in its own process group, with its temporary files in temp.
func (b bench) command(env []string, args ...string) testkit.Command {
	return testkit.Command{Path: b.lab, Args: args, Env: append([]string{"TMPDIR=" + b.temp}, env...)}
}

// run runs lab to its end.
func (b bench) run(env []string, args ...string) (code int, stdout, stderr string) {
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
func (b bench) nothingLeft() {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		folders, err := os.ReadDir(b.temp)
		if err != nil {
			b.t.Fatal(err)
		}
		processes := b.processes()
		if len(folders) == 0 && len(processes) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("left behind: folders %v, processes %q", folders, processes)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes returns those that have the bench's folder in their environment: everything that
// lab starts inherits it.
func (b bench) processes() (found []string) {
	b.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		b.t.Fatal(err)
	}
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
	b := newBench(t)
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

	// A person gets a table and the picture.
	code, stdout, _ = b.run(nil, "run", "no-lock")
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + path, "REQUIRE_INFRA=", "SECKILL_TEST_ZOOKEEPER=/nowhere", "SECKILL_TEST_MYSQL_ROOT=/nowhere"}
}

// Without servers on the PATH, experiments run on what the laboratory brings where that is
// meaningful, and name it; the others are skipped by name.
func TestRunWithoutServers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	environment := withoutServers(t)
	played := []string{"no-lock", "naive-holder-killed", "red-node-restarts-empty"}
	missing := []string{"zk-holder-killed", "red-paused-holder", "red-node-restarts-durable"}
	code, stdout, stderr := b.run(environment, slices.Concat([]string{"run", "--json"}, played, missing)...)
	all := results(t, stdout)
	if code != exitOK || len(all) != len(played)+len(missing) {
		t.Fatalf("exit code %d, %d results; stderr:\n%s", code, len(all), stderr)
	}
	for _, r := range all {
		if slices.Contains(played, r.ID) {
			if !r.AsExpected || !strings.Contains(r.Engine.Redis, "embedded") || r.ID == "no-lock" && !strings.Contains(r.Engine.Database, "SQLite") {
				t.Errorf("%+v", r)
			}
			continue
		}
		if r.Skipped == "" || r.Observed != "" || !strings.Contains(stderr, r.ID) {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}
	_, stdout, _ = b.run(environment, append([]string{"run"}, missing...)...)
	for _, want := range []string{
		"3 skipped", "red-node-restarts-durable", "redis-server not found on PATH: apt-get install redis-server, brew install redis",
		"make infra", "brew install redis mariadb zookeeper", "go run ./cmd/lab run zk-holder-killed red-paused-holder red-node-restarts-durable",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	b.nothingLeft()
}

// The documents say how many experiments a machine with Go alone plays.
func TestDocumentsCountWhatGoAlonePlays(t *testing.T) {
	all, err := experiments.All()
	if err != nil {
		t.Fatal(err)
	}
	alone := 0
	for _, e := range all {
		if !slices.ContainsFunc(e.Needs, func(s testbed.Server) bool { return s != testbed.Redis && s != testbed.Nodes }) {
			alone++
		}
	}
	if alone < 40 {
		t.Errorf("%d experiments play with Go alone, want 40 or more", alone)
	}
	for _, file := range []string{"README.md", "docs/workshop.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d of the %d", alone, len(all)); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

// However lab is ended, no process and no folder is left.
func TestNothingStaysBehind(t *testing.T) {
	t.Parallel()
	requireServers(t)
	b := newBench(t)
	for name, end := range map[string]func(*testkit.Process){
		"Ctrl-C": func(p *testkit.Process) {
			self, err := os.FindProcess(p.PID())
			if err == nil {
				err = self.Signal(os.Interrupt)
			}
			if err != nil {
				t.Error(err)
			}
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

func everyExperiment(t *testing.T) lab.Set {
	t.Helper()
	all, err := experiments.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestList(t *testing.T) {
	all := everyExperiment(t)
	code, stdout, _ := call(t, "list")
	_, asJSON, _ := call(t, "list", "--json")
	if code != exitOK || strings.Count(asJSON, "\n") != len(all) {
		t.Errorf("exit code %d, %d objects for %d experiments", code, strings.Count(asJSON, "\n"), len(all))
	}
	for _, e := range all {
		if !strings.Contains(stdout, "\n  "+e.ID+" ") || !strings.Contains(asJSON, `"id":"`+e.ID+`"`) {
			t.Errorf("%s is not in the list", e.ID)
		}
		if strings.Contains(stdout, e.Title+"\n") || strings.Contains(stdout, e.Hypothesis) {
			t.Errorf("the list gives the outcome of %s away", e.ID)
		}
	}
	if want := `{"name":"lease","value":"800ms","bounds":"500ms to 5s"`; !strings.Contains(asJSON, want) {
		t.Errorf("the JSON does not say what can be changed, %s", want)
	}
	if _, answers, _ := call(t, "list", "--answers"); !strings.Contains(answers, "\nno-lock  ") || !strings.Contains(answers, all[0].Title) {
		t.Errorf("the answers do not name them:\n%s", answers)
	}
}

func TestWrongRun(t *testing.T) {
	for want, args := range map[string][]string{
		"which experiment":                             {"run"},
		"perhaps naive-wrong-release":                  {"run", "naive-wrong-relaese"},
		"see lab list":                                 {"run", "xyzzy"},
		"--instances is 0":                             {"run", "all", "--instances", "0"},
		"--instances is 99":                            {"run", "--instances", "99", "all"},
		"--duration is 1ns":                            {"run", "all", "--duration", "1ns"},
		"--seed is -1":                                 {"run", "all", "--seed", "-1"},
		"standard input is none":                       {"run", "no-lock", "--quiz"},
		"but oversold, duplicate_orders, lost_updates": {"run", "no-lock", "--predict", "breaks:undersold"},
		"holds, breaks, or breaks:KIND":                {"run", "no-lock", "--predict", "perhaps"},
		"paused-holder has no parameter --buyers; it has --lock": {"run", "paused-holder", "--buyers", "3"},
		`no-lock cannot have --stock "0"; it can be 1 to`:        {"run", "no-lock", "--stock", "0"},
		"nothing of it can be changed":                           {"run", "red-clock-jump", "--lease", "1s"},
		"use one of them":                                        {"run", "no-lock", "--swap", "--stock", "5"},
		"which experiment? its id":                               {"show"},
		"perhaps no-unique-index":                                {"show", "no-unique-indx"},
		"-nonsense":                                              {"run", "all", "--nonsense"},
		"--report: ":                                             {"run", "all", "--report", "/dev/null/report"},
		"--report: open /proc/self":                              {"run", "all", "--report", "/proc/self"},
		"--api: stat /nonexistent":                               {"run", "all", "--api", "/nonexistent"},
		"--api: /tmp is not a file":                              {"run", "all", "--api", "/tmp"},
		`unexpected argument "all"`:                              {"list", "all"},
		`unexpected argument "nought"`:                           {"catalogue", "nought"},
	} {
		code, stdout, stderr := call(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want 2 and %q", args, code, stdout, stderr, want)
		}
	}
}

// The reason for a missing verdict is printed even if the output is JSON.
func TestProgressSaysWhyThereIsNoVerdict(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, total: 12}
	p.done(finding.Result{ID: "no-lock", Observed: finding.Breaks, AsExpected: true})
	p.done(finding.Result{ID: "paused-holder", Failed: "waited 20s for this: a reader\nand a stack"})
	const want = "[ 1/12] no-lock                            breaks     ok                0.0 s\n" +
		"[ 2/12] paused-holder                      no verdict NOT AS EXPECTED   0.0 s\n" +
		"        waited 20s for this: a reader\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// The report contains the setup that was used, and says whose it is.
func TestReportOfASwap(t *testing.T) {
	req := runRequest{report: t.TempDir(), options: testbed.Defaults()}
	var stderr strings.Builder
	results := []finding.Result{{ID: "no-lock", Title: "swapped", Group: "g", SetupOf: "reentrant-lock", Observed: finding.Holds}}
	if err := saveReport(&stderr, req, everyExperiment(t), results, time.Now()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(reportPath(req.report))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"with the setup of reentrant-lock", "&#34;lock&#34;: &#34;reentrant&#34;"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report does not say %s", want)
		}
	}
	if want := "report: " + reportPath(req.report) + "\n"; stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}

// If no report could be written, no path is printed.
func TestReportThatCannotBeWritten(t *testing.T) {
	req := runRequest{report: t.TempDir(), options: testbed.Defaults()}
	if err := os.MkdirAll(filepath.Join(reportPath(req.report), "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	if err := saveReport(&stderr, req, everyExperiment(t), []finding.Result{{ID: "no-lock"}}, time.Now()); err == nil || stderr.Len() > 0 {
		t.Errorf("%v, and it says %q", err, stderr.String())
	}
}
