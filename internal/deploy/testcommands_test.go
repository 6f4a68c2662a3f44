package deploy_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

const (
	serversVar = "SECKILL_TEST_SERVERS=1"
	soakVar    = "SECKILL_TEST_SOAK=1"
)

// A command that a document or a comment gives runs a test: each package that it names has one of that name. If the
// test needs servers, or is of make soak, the variable that lets it run is in its line, in its block of code or in the
// paragraph above its table.
func TestTestCommandsInDocuments(t *testing.T) {
	tests := testFunctions(t)
	command := regexp.MustCompile("go test ((?:-|\\./)[^`\n]*)")
	comment := regexp.MustCompile(`(?m)^//.*$`)
	checked := 0
	check := func(page, text string) {
		for _, at := range command.FindAllStringSubmatchIndex(text, -1) {
			given, reach := text[at[2]:at[3]], reachOf(text, at[0])
			if strings.Contains(given, "…") || regexp.MustCompile(`\./\S*/NAME|-run NAME`).MatchString(given) {
				continue // the reader fills it in
			}
			checked++
			fail.Unequal(t, tests.refuses(given, reach), "", "%s: go test %s", page, given)
		}
	}
	for _, page := range documents(t) {
		check(page, read(t, page))
	}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".go" {
			check(name, strings.Join(comment.FindAllString(read(t, name), -1), "\n"))
		}
		return err
	})
	fail.NowIf(t, err)
	if checked < 60 {
		t.Errorf("only %d commands found", checked)
	}
}

// reachOf returns the text in which the variables of a command may stand: its line, of a row also the paragraph above its
// table, and of a line in a block of code what stands above it there.
func reachOf(text string, at int) string {
	lines := strings.Split(text, "\n")
	last := strings.Count(text[:at], "\n")
	first := last
	up := func(while func(line string) bool) {
		for first > 0 && while(lines[first-1]) {
			first--
		}
	}
	switch inBlock := strings.Count(text[:at], "\n```")%2 == 1; {
	case inBlock:
		up(func(line string) bool { return !strings.HasPrefix(line, "```") })
	case strings.HasPrefix(lines[last], "//\t"):
		up(func(line string) bool { return strings.HasPrefix(line, "//\t") })
	case strings.HasPrefix(lines[last], "|"):
		up(func(line string) bool { return strings.HasPrefix(line, "|") })
		up(func(line string) bool { return line == "" })
		up(func(line string) bool { return line != "" })
	}
	return strings.Join(lines[first:last+1], "\n")
}

// testFunction is a test, an example or a benchmark: the folder of its package, its file and its name.
type testFunction struct{ folder, file, name string }

func (f testFunction) soak() bool { return strings.HasPrefix(f.name, "TestSoak") }

func (f testFunction) servers() bool {
	return strings.HasSuffix(f.file, "_servers_test.go") || strings.HasPrefix(f.folder, "test/")
}

type functions []testFunction

func testFunctions(t *testing.T) (all functions) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Example|Benchmark)\w*)\(`)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, "_test.go") {
			for _, found := range declared.FindAllStringSubmatch(read(t, name), -1) {
				if found[1] != "TestMain" {
					all = append(all, testFunction{path.Dir(name), path.Base(name), found[1]})
				}
			}
		}
		return err
	})
	fail.NowIf(t, err)
	return all
}

// refuses says what is wrong with the arguments of go test, or nothing. A test that is asked for without -run is any of the
// package: those that need servers are skipped, and the others run.
func (all functions) refuses(arguments, reach string) string {
	arguments = strings.ReplaceAll(arguments, `\|`, "|") // as a cell of a table has it
	arguments, _, _ = strings.Cut(arguments, " # ")
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(arguments, -1)
	var packages []string
	pattern, bench := "", false
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"):
			packages = append(packages, strings.Trim(word[2:], ",.:;)"))
			if strings.Contains(word, "/...") {
				packages[len(packages)-1] += "..."
			}
		case (word == "-run" && !bench || word == "-bench") && i+1 < len(words):
			pattern, bench = strings.Trim(words[i+1], "'"), word == "-bench"
		}
	}
	top, _, _ := strings.Cut(pattern, "/")
	name, err := regexp.Compile(top)
	if err != nil {
		return err.Error()
	}
	if len(packages) == 0 {
		if pattern == "" {
			return "" // it is no command
		}
		return "it names no package"
	}
	var matched functions
	for _, p := range packages {
		before := len(matched)
		for _, f := range all {
			if under, below := strings.CutSuffix(p, "..."); (f.folder == p || below && strings.HasPrefix(f.folder+"/", under)) &&
				strings.HasPrefix(f.name, "Benchmark") == bench && name.MatchString(f.name) {
				matched = append(matched, f)
			}
		}
		if len(matched) == before {
			return "no test of that name in " + p
		}
	}
	if !strings.Contains(top, "(") {
		for one := range strings.SplitSeq(top, "|") {
			name := regexp.MustCompile(one)
			if !slices.ContainsFunc(matched, func(f testFunction) bool { return name.MatchString(f.name) }) {
				return "no test is named " + one
			}
		}
	}
	if bench {
		return "" // a benchmark may start what it needs
	}
	fast := slices.ContainsFunc(matched, func(f testFunction) bool { return !f.soak() })
	servers := slices.ContainsFunc(matched, func(f testFunction) bool { return f.servers() && (!f.soak() || !fast) })
	switch {
	case pattern != "" && servers && !strings.Contains(reach, serversVar):
		return "it needs " + serversVar
	case !fast && !strings.Contains(reach, soakVar):
		return "it needs " + soakVar
	}
	return ""
}
