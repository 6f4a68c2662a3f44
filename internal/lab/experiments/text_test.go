package experiments

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/testkit/fail"
)

// [All] fails if an experiment has no text, or lacks a field of it.
func TestEveryExperimentHasItsText(t *testing.T) {
	set, err := All()
	fail.NowIf(t, err)
	for _, e := range set {
		if len(e.Sources) > 0 && e.Page != "" || len(e.Sources)+len(e.Reports) == 0 && e.Page == "" {
			t.Errorf("%s names no document that it comes from, no report and no page; or a document and a page", e.ID)
		}
		if e.Page != "" {
			fail.If(t, fail.Of(os.Stat(filepath.Join("..", "..", "..", "docs", e.Page+".md"))), "%s", e.ID)
		}
		if !strings.HasSuffix(e.Question, "?") {
			t.Errorf("%s: %q is no question", e.ID, e.Question)
		}
		for _, s := range e.Sources {
			if !slices.ContainsFunc(lab.Documents(), func(d lab.Document) bool { return d.Name == s.Document }) {
				t.Errorf("%s comes from an unknown document: %+v", e.ID, s)
			}
		}
		for _, option := range e.K6 {
			if name, value, ok := strings.Cut(option, "="); !ok || name == "" || value == "" {
				t.Errorf("%s: the k6 option %q is not NAME=value", e.ID, option)
			}
		}
	}
}

// The Chinese text of an experiment says what the English one says: the same fields, in Chinese, with the same numbers,
// names and statements in them.
func TestEveryTextIsThereInChinese(t *testing.T) {
	set, err := All()
	fail.NowIf(t, err)
	var ids []string
	for _, e := range set {
		ids = append(ids, e.ID)
	}
	for _, e := range set {
		english, chinese := e.English(), e.Chinese
		for _, f := range []struct{ name, english, chinese string }{
			{"Group", english.Group, chinese.Group},
			{"Title", english.Title, chinese.Title},
			{"Question", english.Question, chinese.Question},
			{"Hypothesis", english.Hypothesis, chinese.Hypothesis},
			{"Arrangement", english.Arrangement, chinese.Arrangement},
			{"Why", english.Why, chinese.Why},
			{"Seen", english.Seen, chinese.Seen},
			{"Cure", english.Cure, chinese.Cure},
		} {
			for _, wrong := range untranslated(f.english, f.chinese, ids) {
				t.Errorf("%s: %s: %s", e.ID, f.name, wrong)
			}
		}
		if !strings.HasSuffix(chinese.Question, "？") {
			t.Errorf("%s: %q is no question", e.ID, chinese.Question)
		}
	}
}

var (
	han        = regexp.MustCompile(`\p{Han}`)
	phrase     = regexp.MustCompile(`\b[a-z]{2,}(?:[ ,]+[a-z]{2,}){3,}\b`) // four words of a sentence
	quoted     = regexp.MustCompile(`"[^"]*"`)
	digits     = regexp.MustCompile(`\d+(?:\.\d+)?`)
	capitals   = regexp.MustCompile(`\b[A-Z][A-Z_]{2,}\b`) // commands and signals
	identifier = regexp.MustCompile(`\b[a-z]+(?:[-_][a-z0-9]+)+\b`)
)

// untranslated returns what is wrong with the Chinese text of a field.
func untranslated(english, chinese string, ids []string) (wrong []string) {
	if (english == "") != (chinese == "") {
		return []string{"it is there in one language only"}
	}
	if english != "" && !han.MatchString(chinese) {
		return []string{fmt.Sprintf("%q is not Chinese", chinese)}
	}
	if left := phrase.FindString(quoted.ReplaceAllString(chinese, "")); left != "" {
		wrong = append(wrong, fmt.Sprintf("%q is left in English", left))
	}
	same := func(what string, find func(string) []string) {
		set := func(text string) []string { return slices.Compact(slices.Sorted(slices.Values(find(text)))) }
		if a, b := set(english), set(chinese); !slices.Equal(a, b) {
			wrong = append(wrong, fmt.Sprintf("the %s are %q in English and %q in Chinese", what, a, b))
		}
	}
	same("numbers", func(s string) []string { return digits.FindAllString(s, -1) })
	same("commands", func(s string) []string { return capitals.FindAllString(s, -1) })
	same("experiments", func(s string) []string {
		return slices.DeleteFunc(identifier.FindAllString(s, -1), func(id string) bool { return !slices.Contains(ids, id) })
	})
	return wrong
}

func TestNoTextIsUnused(t *testing.T) {
	names := func(pattern string) (all []string) {
		files, err := fs.Glob(textFiles, pattern)
		fail.NowIf(t, err)
		for _, name := range files {
			all = append(all, strings.TrimSuffix(path.Base(name), path.Ext(name)))
		}
		return all
	}
	unused := names("text/*.txt")
	if chinese := names("text/zh/*.txt"); !slices.Equal(unused, chinese) {
		t.Errorf("the texts are %q in English and %q in Chinese", unused, chinese)
	}
	for _, c := range comparisons() {
		i := slices.Index(unused, c.text)
		if i < 0 {
			t.Errorf("two comparisons share the text %s, or there is none", c.text)
			continue
		}
		unused = slices.Delete(unused, i, i+1)
	}
	if len(unused) > 0 {
		t.Errorf("no comparison uses %q", unused)
	}
}

// A line break in a Chinese text is no space between Chinese characters.
func TestUnfold(t *testing.T) {
	for text, want := range map[string]string{
		"one\n  two":        "one two",
		"持有\n  者":           "持有者",
		"用 Redis\n  的锁":     "用 Redis 的锁",
		"的\n  Redis":        "的 Redis",
		"到期，\n  Redis 删除":   "到期，Redis 删除",
		"（SIGKILL\n  ）之后\n": "（SIGKILL）之后\n",
	} {
		fail.Unequal(t, unfold(text), want, "%q is unfolded to", text)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a text before the experiments": "# Readers\n\nTitle: one\n",
		"an unknown field":              "## first\nHeading: one\n",
		"a field that is there twice":   "## first\nTitle: one\nTitle: two\n",
		"a field without a text":        "## first\nTitle: \n",
		"a line that is no field":       "## first\nTitle: one\nand a half\n",
		"a source without a section":    "## first\nSource: How locks work\n",
		"a report without a number":     "## first\nReport: owner/name\n",
		"a report without an owner":     "## first\nReport: name#1\n",
		"two headings":                  "# Readers\n# Writers\n",
	} {
		if _, texts, err := parse(text); err == nil {
			t.Errorf("%s is accepted: %+v", name, texts)
		}
	}
}

func TestTextsBelongToTheirExperiments(t *testing.T) {
	for name, spoil := range map[string]func(*comparison){
		"an experiment without a text": func(c *comparison) { c.cases = append(c.cases, setupCase{id: "more"}) },
		"a text without an experiment": func(c *comparison) { c.cases = c.cases[:1] },
		"another experiment's text":    func(c *comparison) { c.cases[0].id = "other" },
		"no such file":                 func(c *comparison) { c.text = "none" },
	} {
		c := comparisons()[0]
		spoil(&c)
		if _, err := c.experiments(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A term has one translation: what the glossary rules out is in no Chinese text.
func TestChineseKeepsToTheGlossary(t *testing.T) {
	glossary, err := os.ReadFile("text/zh/README.md")
	fail.NowIf(t, err)
	var ruledOut []string
	for line := range strings.Lines(string(glossary)) {
		if columns := strings.Split(line, "|"); len(columns) == 5 && !strings.Contains(line, "English") {
			for word := range strings.SplitSeq(columns[3], "、") {
				if word = strings.TrimSpace(word); han.MatchString(word) {
					ruledOut = append(ruledOut, word)
				}
			}
		}
	}
	if len(ruledOut) < 15 {
		t.Fatalf("the glossary is read wrongly: %q", ruledOut)
	}
	files, err := filepath.Glob("text/zh/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	files = append(files, filepath.Join("..", "i18n", "zh.json"), filepath.Join("..", "..", "web", "messages", "zh.json"),
		filepath.Join("..", "..", "..", "README.zh-CN.md"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		fail.NowIf(t, err)
		for _, word := range ruledOut {
			if strings.Contains(string(text), word) {
				t.Errorf("%s: the glossary has another word for %s", name, word)
			}
		}
	}
}
