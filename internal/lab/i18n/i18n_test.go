package i18n

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// nouns are the keys of zh.json that are names, or parts of them: no call of [F] has them.
func nouns() []string {
	return []string{
		"again", // of an actor that comes a second time
		"another buyer", "another user", "buyer %s", "user %s", "reader %s", "readers", "writer", "faults",
		"first buyers", "second buyers", "next buyer", "cancelling process", "expiring process", "webhook handler",
		"provider", "worker", "the others", "bot", "people", "friends", "line %s", "group %s", "administrator", "node %s", "redis nodes", "request %s",
		"outer call", "inner call", "next order", "order %s", "holder", "next holder", "waiter %s", "the key in redis", "user 42, voucher %s", "the replica that acknowledges", "its replica", "primary", "replica",
		", ", // of a list
		"clauses|, ",
	}
}

// Every text that is made somewhere in the laboratory has a Chinese format, with the same values. No other has.
func TestEveryTextIsThereInChinese(t *testing.T) {
	used := map[string]bool{}
	for _, key := range nouns() {
		used[key] = true
	}
	calls := 0
	for _, root := range []string{"..", filepath.Join("..", "..", "..", "cmd", "lab")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == "../i18n" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "F" || fmt.Sprint(f.X) != "i18n" {
					return true
				}
				calls++
				format, constant := constant(call.Args[0])
				if !constant {
					t.Errorf("%s: a format is no constant", path)
					return true
				}
				used[format] = true
				if _, ok := chinese()[format]; !ok {
					t.Errorf("%s: %q has no Chinese in zh.json", path, format)
				}
				return true
			})
			return nil
		})
		fail.NowIf(t, err)
	}
	for _, key := range append(ofTemplate(t), ofKinds(t)...) {
		calls++
		used[key] = true
		if _, ok := chinese()[key]; !ok {
			t.Errorf("%q has no Chinese in zh.json", key)
		}
	}
	if calls < 100 {
		t.Errorf("only %d texts were found: the files are read wrongly", calls)
	}
	for english, chinese := range chinese() {
		if !used[english] {
			t.Errorf("nothing tells %q", english)
		}
		if a, b := verbs(english), verbs(chinese); !slices.Equal(a, b) {
			t.Errorf("%q has the values %q, and %q has %q", english, a, chinese, b)
		}
		if words := verb.ReplaceAllString(chinese, ""); !regexp.MustCompile(`\p{Han}`).MatchString(words) && strings.ContainsFunc(words, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
			if !slices.Contains([]string{"%.0f ms", "ms"}, english) && chinese == english {
				t.Errorf("%q is not translated", english)
			}
		}
	}
}

// ofTemplate returns what the report's template tells.
func ofTemplate(t *testing.T) (keys []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "report", "page.html.tmpl"))
	fail.NowIf(t, err)
	for _, m := range regexp.MustCompile(`\{\{t "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		keys = append(keys, m[1])
	}
	if outside := regexp.MustCompile(`>[^<{]*[A-Za-z]{2}[^<{]*<`).FindAllString(string(text), -1); !slices.Equal(outside, []string{">max<"}) {
		t.Errorf("the template says %q in one language", outside)
	}
	return keys
}

// ofKinds returns the titles and the meanings of the kinds of anomaly.
func ofKinds(t *testing.T) (keys []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "finding", "finding.go"), nil, parser.SkipObjectResolution)
	fail.NowIf(t, err)
	kinds, _ := file.Decls[slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Name.Name == "Kinds"
	})].(*ast.FuncDecl)
	ast.Inspect(kinds, func(n ast.Node) bool {
		if info, ok := n.(*ast.CompositeLit); ok && len(info.Elts) == 3 {
			for _, e := range info.Elts[1:] {
				text, ok := constant(e)
				if !ok {
					t.Errorf("a kind is described by %v", e)
				}
				keys = append(keys, text)
			}
		}
		return true
	})
	return keys
}

// constant is the value of a string constant, which may be put together.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := constant(e.X)
		b, also := constant(e.Y)
		return a + b, ok && also && e.Op == token.ADD
	}
	return "", false
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?([-+#0 ]*[\d.]*[a-z])`)

// verbs returns the values of a format, by their number.
func verbs(format string) (all []string) {
	next := 1
	for _, m := range verb.FindAllStringSubmatch(strings.ReplaceAll(format, "%%", ""), -1) {
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		all = append(all, fmt.Sprintf("%d%s", next, m[2]))
		next++
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestText(t *testing.T) {
	who := Name("buyer 17 (api-1)")
	text := Join(F("%s gets the lock at %s", who, Plain("12 ms")), Plain(" ✓"))
	fail.Unequal(t, text.String(), "buyer 17 (api-1) gets the lock at 12 ms ✓", "in English")
	fail.Unequal(t, text.In(Chinese), "买家 17 (api-1) 在 12 ms 得到锁 ✓", "in Chinese")
	if got := F("%s and lets %s in at %s", F("deletes the lock of %s", Name("buyer 2")), Name("buyer 3"), F("%d ms", 7)).In(Chinese); got !=
		"删掉买家 2 的锁，买家 3 因此在 7 毫秒进入" {
		t.Errorf("with spaces: %q", got)
	}
	renamed := text.Rename(func(n Name) Name { return Name(strings.Replace(string(n), "17", "2", 1)) })
	if got := renamed.String(); got != "buyer 2 (api-1) gets the lock at 12 ms ✓" || strings.Contains(text.String(), "buyer 2") {
		t.Errorf("renamed: %q, before %q", got, text)
	}
	if !(Text{}).IsZero() || text.IsZero() || (Text{}).String() != "" {
		t.Error("the zero text is not empty")
	}
	type holder struct {
		Text Text `json:"text,omitzero"`
	}
	data, err := json.Marshal([]holder{{text}, {}})
	if err != nil || string(data) != `[{"text":"buyer 17 (api-1) gets the lock at 12 ms ✓"},{}]` {
		t.Errorf("%s, %v", data, err)
	}
	var back []holder
	if err := json.Unmarshal(data, &back); err != nil || back[0].Text.String() != text.String() || !back[1].Text.IsZero() {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestName(t *testing.T) {
	for name, want := range map[Name]string{
		"buyer 3":                    "买家 3",
		"Buyer 3":                    "买家 3",
		"buyer 3 (api-1)":            "买家 3 (api-1)",
		"buyer 3 (process-2), again": "买家 3 (process-2)（再次）",
		"buyer 3 (api-1), again 2":   "买家 3 (api-1)（再次 2）",
		"writer (process-1)":         "写者 (process-1)",
		"process-1":                  "process-1",
		"MariaDB":                    "MariaDB",
		"":                           "",
	} {
		fail.Unequal(t, name.In(Chinese), want, "%q", name)
		if got := name.In(English); got != string(name) {
			t.Errorf("%q is %q in English", name, got)
		}
	}
}
