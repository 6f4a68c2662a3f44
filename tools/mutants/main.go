// Command mutants shows that the tests can fail: it puts each deliberate fault of its table into a copy of the project,
// runs the tests that are to catch it, and prints which one did. go test ./... is asked first, and only if that does
// not see the fault, the tests on real servers.
//
// It exits with 1 if a fault is not caught, and with 2 if it could not be tried.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	os.Exit(code)
}

// run tries the faults that the arguments choose and prints a table, or with -json an object for each fault.
func run(ctx context.Context, args []string, out io.Writer) (exitCode int, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "try the faults whose description or file matches this regular `expression`")
	list := flags.Bool("list", false, "print the faults and try none")
	asJSON := flags.Bool("json", false, "print one object for each fault")
	side := flags.Int("side", 2, "how many faults are tried at the same time, each in a copy of its own")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0, nil
	} else if err != nil {
		return 2, nil //nolint:nilerr // the flag set has said what is wrong
	}
	wanted, err := regexp.Compile(*only)
	if err != nil || flags.NArg() > 0 || *side < 1 {
		return 2, errors.Join(err, errors.New("usage: mutants [-only EXPRESSION] [-list] [-json] [-side N]"))
	}
	var chosen []mutant
	for _, m := range table() {
		if wanted.MatchString(m.fault) || wanted.MatchString(m.file) {
			chosen = append(chosen, m)
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%s: %s\n", m.file, m.fault)
		}
		return 0, nil
	}
	tried, err := tryAll(ctx, chosen, *side)
	if *asJSON {
		err = errors.Join(err, printJSON(out, tried))
	} else {
		err = errors.Join(err, printTable(out, tried))
	}
	switch {
	case err != nil:
		return 2, err
	case survived(tried) > 0:
		return 1, nil
	}
	return 0, nil
}

// verdict is what became of one fault.
type verdict struct {
	Fault    string  `json:"fault"`
	File     string  `json:"file"`
	Line     int     `json:"line"`
	Tier     string  `json:"tier,omitempty"`      // of the tests that caught it; empty if none did
	CaughtBy string  `json:"caught_by,omitempty"` // the test
	Seconds  float64 `json:"seconds"`
}

// tryAll tries the faults, side of them at a time, and returns their verdicts in the table's order.
func tryAll(ctx context.Context, chosen []mutant, side int) ([]verdict, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := make([]verdict, len(chosen))
	var sound soundness
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(side, len(chosen)) {
		workers.Go(func() {
			copied, err := copyProject(ctx)
			defer os.RemoveAll(copied)
			for i := range next {
				if err == nil {
					verdicts[i], err = chosen[i].try(ctx, copied, &sound)
				}
				if err != nil {
					cancel(err)
					continue
				}
				fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), verdicts[i].summary())
			}
		})
	}
	for i := range chosen {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return verdicts, context.Cause(ctx)
}

// copyProject copies what git tracks into a temporary folder, with the changes that are not committed.
func copyProject(ctx context.Context) (folder string, err error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the project's folder: %w", err)
	}
	from := strings.TrimSpace(string(root))
	names := exec.CommandContext(ctx, "git", "ls-files", "-z")
	names.Dir = from
	listed, err := names.Output()
	if err != nil {
		return "", fmt.Errorf("list the project's files: %w", err)
	}
	if folder, err = os.MkdirTemp("", "seckill-mutants-"); err != nil {
		return "", err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(from, name), filepath.Join(folder, name)); err != nil {
			return folder, err
		}
	}
	return folder, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed, and not yet committed
	}
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode())
}

// The tiers in the order in which they are asked.
var tiers = []struct{ name, env string }{
	{"go test ./...", "SECKILL_TEST_SERVERS=0"},
	{"make test", "SECKILL_TEST_SERVERS=1"},
}

// soundness remembers which tests pass without a fault. A test that fails anyway catches nothing.
type soundness struct {
	mu    sync.Mutex
	known map[string]error
}

func (s *soundness) check(ctx context.Context, copied, env, packages string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := env + " " + packages
	if err, known := s.known[key]; known {
		return err
	}
	test, err := failing(ctx, copied, env, packages)
	if test != "" {
		err = fmt.Errorf("%s fails without any fault (%s go test %s)", test, env, packages)
	}
	if s.known == nil {
		s.known = make(map[string]error)
	}
	s.known[key] = err
	return err
}

// try puts the fault into the copy, runs the tests, and takes it out again.
func (m mutant) try(ctx context.Context, copied string, sound *soundness) (verdict, error) {
	path := filepath.Join(copied, m.file)
	whole, err := os.ReadFile(path)
	if err != nil {
		return verdict{}, err
	}
	if n := bytes.Count(whole, []byte(m.old)); n != 1 {
		return verdict{}, fmt.Errorf("%s: %q stands there %d times, not once", m.file, m.old, n)
	}
	v := verdict{Fault: m.fault, File: m.file, Line: 1 + bytes.Count(whole[:bytes.Index(whole, []byte(m.old))], []byte("\n"))}
	faulty := bytes.Replace(whole, []byte(m.old), []byte(m.new), 1)
	began := time.Now()
	for _, tier := range tiers {
		if err := sound.check(ctx, copied, tier.env, m.packages); err != nil {
			return v, err
		}
		if err := os.WriteFile(path, faulty, 0o644); err != nil {
			return v, err
		}
		test, err := failing(ctx, copied, tier.env, m.packages)
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			return v, err
		}
		if err != nil {
			return v, fmt.Errorf("%s (%s): %w", m.fault, m.file, err)
		}
		if test != "" {
			v.Tier, v.CaughtBy = tier.name, test
			break
		}
	}
	v.Seconds = time.Since(began).Seconds()
	return v, nil
}

// limit ends tests that a fault keeps from ending: it is caught by the one that hangs.
const limit = 3 * time.Minute

var (
	failed  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	running = regexp.MustCompile(`(?m)^\s+running tests:\s+(\S+)`)
)

// failing runs the tests of the packages and returns the name of one that fails, "" if none does. A fault that does not
// compile is an error: it shows nothing.
func failing(ctx context.Context, folder, env, packages string) (test string, err error) {
	args := append([]string{"test", "-trimpath", "-count=1", "-timeout", limit.String()}, strings.Fields(packages)...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test stops its children
	cmd.WaitDelay = 30 * time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil {
		return "", nil
	}
	if bytes.Contains(output, []byte("[build failed]")) || bytes.Contains(output, []byte("[setup failed]")) {
		return "", fmt.Errorf("it does not compile:\n%s", output)
	}
	names := failed.FindAllSubmatch(output, -1)
	if len(names) == 0 {
		names = running.FindAllSubmatch(output, -1)
	}
	if len(names) == 0 {
		return "a panic or an Example", nil
	}
	deepest := ""
	for _, name := range names { // a parent stands before its subtests
		if deepest == "" || strings.HasPrefix(string(name[1]), deepest+"/") {
			deepest = string(name[1])
		}
	}
	return deepest, nil
}

func (v verdict) summary() string {
	return fmt.Sprintf("%s: %s", v.Fault, cmp.Or(v.CaughtBy, "NOT CAUGHT"))
}

func survived(verdicts []verdict) (n int) {
	for _, v := range verdicts {
		if v.Fault != "" && v.CaughtBy == "" {
			n++
		}
	}
	return n
}

func printTable(out io.Writer, verdicts []verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\twhere\tcaught in\tby\tseconds")
	count := make(map[string]int)
	for _, v := range verdicts {
		if v.Fault == "" { // not tried
			continue
		}
		count[v.Tier]++
		fmt.Fprintf(w, "%s\t%s:%d\t%s\t%s\t%.0f\n", v.Fault, v.File, v.Line, cmp.Or(v.Tier, "-"), cmp.Or(v.CaughtBy, "NOT CAUGHT"), v.Seconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d faults: %d caught by %s, %d by %s, %d not caught\n",
		count[tiers[0].name]+count[tiers[1].name]+count[""], count[tiers[0].name], tiers[0].name, count[tiers[1].name], tiers[1].name, count[""])
	return err
}

func printJSON(out io.Writer, verdicts []verdict) error {
	encoder := json.NewEncoder(out)
	for _, v := range verdicts {
		if v.Fault == "" {
			continue
		}
		if err := encoder.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
