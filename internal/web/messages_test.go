package web_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// Every language has every message, with the same values in it.
func TestLanguagesHaveTheSameMessages(t *testing.T) {
	all, err := web.Messages()
	fail.NowIf(t, err)
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{"en", "zh"}) {
		t.Fatalf("the languages are %q", got)
	}
	values := func(message string) []string {
		return slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\{\w+\}`).FindAllString(message, -1))))
	}
	for language, messages := range all {
		for key, message := range messages {
			if strings.TrimSpace(message) == "" {
				t.Errorf("%s: %s is empty", language, key)
			}
			for other, theirs := range all {
				if _, ok := theirs[key]; !ok {
					t.Errorf("%s has %s, %s has not", language, key, other)
				} else if a, b := values(message), values(theirs[key]); !slices.Equal(a, b) {
					t.Errorf("%s: %s has the values %q in %s and %q in %s", key, key, a, language, b, other)
				}
			}
		}
	}
}

// The messages that a module or a page names, and those whose names it puts together.
var (
	named   = regexp.MustCompile(`\b(?:t|has)\(\s*'([\w.]+)'|data-t="([\w.]+)"|data-t-label="([\w.]+)"|setup\('([\w.]+)'\)|[?:]\s+'([a-z]\w*(?:\.\w+)+)'`)
	chosen  = regexp.MustCompile(`'([a-z]+(?:\.\w+)+)'`)
	builtOf = regexp.MustCompile("`((?:\\w+\\.)+)\\$\\{")
)

// Every message that a module or a page names is there, and every message is named.
func TestMessagesAreNamed(t *testing.T) {
	all, err := web.Messages()
	fail.NowIf(t, err)
	messages := all["en"]
	var sources []string
	for _, pattern := range []string{"static/*.js", "pages/*.html"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		sources = append(sources, found...)
	}
	used := map[string]bool{}
	prefixes := map[string]bool{}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		fail.NowIf(t, err)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			key := strings.Join(m[1:], "")
			used[key] = true
			if _, ok := messages[key]; !ok && !strings.HasPrefix(key, "seckill.") {
				t.Errorf("%s names the message %q, which does not exist", name, key)
			}
		}
		for _, m := range chosen.FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`data-t="\{\{if[^"]*"`).FindAllString(string(text), -1) {
			for _, key := range regexp.MustCompile(`\}\}([\w.]+)`).FindAllStringSubmatch(m, -1) {
				used[key[1]] = true
				if _, ok := messages[key[1]]; !ok {
					t.Errorf("%s names the message %q, which does not exist", name, key[1])
				}
			}
		}
		for _, m := range builtOf.FindAllStringSubmatch(string(text), -1) {
			prefixes[m[1]] = true
		}
	}
	for key := range messages {
		built := slices.ContainsFunc(slices.Collect(maps.Keys(prefixes)), func(p string) bool { return strings.HasPrefix(key, p) })
		if !used[key] && !built {
			t.Errorf("nothing shows the message %q", key)
		}
	}
	if len(used) < 30 || len(prefixes) < 2 {
		t.Errorf("found %d names and %d beginnings of names: the modules are read wrongly", len(used), len(prefixes))
	}
}
