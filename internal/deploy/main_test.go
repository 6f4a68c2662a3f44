package deploy_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const root = "../.."

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(root, path))
	fail.NowIf(t, err)
	return p
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	fail.NowIf(t, err)
	return string(b)
}

// sources is the text of all files below a folder that have one of the endings.
func sources(t *testing.T, folder string, endings ...string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(filepath.Join(root, folder)), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains(endings, filepath.Ext(path)):
			all.WriteString(read(t, filepath.Join(folder, path)))
		}
		return nil
	})
	fail.NowIf(t, err)
	return all.String()
}

// settings returns the variables that the help of the service names.
func settings(t *testing.T) []string {
	t.Helper()
	var help strings.Builder
	if _, err := service.ParseConfig([]string{"-help"}, nil, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	var known []string
	for _, line := range regexp.MustCompile(`(?m)^ +SECKILL_[A-Z_]+(?: or SECKILL_[A-Z_]+)?$|^OTEL_[A-Z_]+`).FindAllString(help.String(), -1) {
		known = append(known, strings.Split(strings.TrimSpace(line), " or ")...)
	}
	return unique(known)
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
