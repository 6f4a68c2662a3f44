package deploy_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// documents are the pages whose links and names are checked.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "loadtest/README.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 15 {
		t.Fatalf("only %d documents found: %q", len(pages), pages)
	}
	return pages
}

// The README is an entrance: it fits two screens, and no line has to be scrolled sideways.
func TestREADMEIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	if len(lines) >= 150 {
		t.Errorf("README.md has %d lines, want fewer than 150: move details to docs/", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("README.md:%d has %d characters, want at most 120", i+1, n)
		}
	}
}

// The README in Chinese has the same sections, commands, links and names of code as the one in English, in the same
// order, and each links to the other in its first line.
func TestREADMEInChinese(t *testing.T) {
	english, chinese := read(t, "README.md"), read(t, "README.zh-CN.md")
	for text, link := range map[string]string{english: "](README.zh-CN.md)", chinese: "](README.md)"} {
		if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, link) {
			t.Errorf("the line %q has no link to the other language", first)
		}
	}
	for what, of := range map[string]*regexp.Regexp{
		"headings": regexp.MustCompile(`(?m)^#+ `),
		"rows":     regexp.MustCompile(`(?m)^\|`),
		"commands": regexp.MustCompile(`(?m)^(?:\$ |go run |make )[^#\n]*[^#\s]`),
		"code":     regexp.MustCompile("`[^`\n]+`"),
		"links":    regexp.MustCompile(`\]\((?:docs|internal|cmd|loadtest|CONTRIBUTING)[^)]*\)`),
	} {
		want, got := of.FindAllString(english, -1), of.FindAllString(chinese, -1)
		if len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("the %s differ:\nREADME.md       %q\nREADME.zh-CN.md %q", what, want, got)
		}
	}
}

// A link to a file of the project names one that exists, and its anchor a heading that is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()\s]+)\)|(?:src|srcset)="([^"]+)"`)
	headings := map[string][]string{}
	for _, page := range documents(t) {
		headings[page] = anchors(read(t, page))
	}
	checked := 0
	for page := range headings {
		for _, found := range link.FindAllStringSubmatch(withoutCode(read(t, page)), -1) {
			target, err := url.Parse(found[1] + found[2])
			if err != nil || target.Scheme != "" {
				continue
			}
			checked++
			path := page
			if target.Path != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(page), target.Path))
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
				continue
			}
			if target.Fragment != "" && !slices.Contains(headings[path], target.Fragment) {
				t.Errorf("%s links to %s: no heading of that name", page, target)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links found", checked)
	}
}

// A path, a test or a setting that a document names exists, and so does a test that a comment names.
func TestNamesInDocuments(t *testing.T) {
	code := sources(t, ".", ".go", ".sh", ".js", ".yml")
	missing := func(name string) bool {
		if strings.Contains(name, "NAME") || strings.HasPrefix(name, "loadtest/out") { // the reader's own
			return false
		}
		_, err := os.Stat(filepath.Join(root, name))
		return err != nil
	}
	path := regexp.MustCompile(`\b(?:cmd|deploy|internal|loadtest|scripts|docs|migrations|tools)/[\w./-]*\w`)
	test := regexp.MustCompile(`\b(?:Test|Benchmark|Example)[A-Z]\w*`)
	setting := regexp.MustCompile(`\bSECKILL_[A-Z_]*[A-Z]`)
	metric := regexp.MustCompile(`\bseckill_[a-z_]+[a-z]`)
	comments := strings.Join(regexp.MustCompile(`(?m)//.*$`).FindAllString(code, -1), "\n")
	for _, name := range unique(test.FindAllString(comments, -1)) {
		if !strings.Contains(code, "func "+name) {
			t.Errorf("a comment names the test %s, which does not exist", name)
		}
	}
	for _, page := range documents(t) {
		text := read(t, page)
		for _, name := range unique(path.FindAllString(text, -1)) {
			if missing(name) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
		for _, name := range unique(test.FindAllString(text, -1)) {
			if !strings.Contains(code, "func "+name) { // -run takes the beginning of a name
				t.Errorf("%s names the test %s, which does not exist", page, name)
			}
		}
		for _, name := range unique(append(setting.FindAllString(text, -1), metric.FindAllString(text, -1)...)) {
			if !exists(code, name) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// exists reports whether the code has a setting or a metric. A setting may be declared by the name of its flag, and a
// metric without its prefix, or with a suffix that the client library adds.
func exists(code, name string) bool {
	flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "SECKILL_"), "_", "-"))
	flag = strings.TrimSuffix(flag, "-file")
	metric := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(name, "")
	return strings.Contains(code, metric) || strings.Contains(code, `"`+flag+`"`) ||
		strings.Contains(code, `"`+strings.TrimPrefix(metric, "seckill_")+`"`)
}

// withoutCode removes blocks of code and code in a line, in which nothing is a link.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// anchors are the fragments that GitHub gives to the headings of a page.
func anchors(text string) []string {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.+?)\s*$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		name = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`).ReplaceAllString(strings.ToLower(name), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
