package admission

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// commandsOf returns the commands that a script calls.
func commandsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	fail.NowIf(t, err)
	commands := make(map[string]bool)
	for _, call := range regexp.MustCompile(`\b(?:call|try)\('([A-Z]+)'`).FindAllStringSubmatch(string(text), -1) {
		commands[call[1]] = true
	}
	return commands
}

// userOfTheDocs returns the words of the ACL that the operator's page gives the service.
func userOfTheDocs(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/servers.md")
	fail.NowIf(t, err)
	_, rest, found := strings.Cut(string(page), "ACL SETUSER seckill ")
	line, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/servers.md has no ACL of a user")
	}
	return strings.Fields(strings.ReplaceAll(line, `\`, ""))
}

// The commands that the scripts of the project call are permitted to the user of the docs, and those of the admission flow
// are tried at the start.
func TestACLOfTheDocs(t *testing.T) {
	t.Parallel()
	user, tried := userOfTheDocs(t), commandsOf(t, "ledger/trial.lua")
	for command := range tried {
		if !slices.Contains(user, "+"+strings.ToLower(command)) {
			t.Errorf("the docs do not permit %s, which the start tries", command)
		}
	}
	scripts := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" || strings.HasPrefix(path, "../lab/") { // the laboratory has servers of its own
			return err
		}
		scripts++
		for command := range commandsOf(t, path) {
			if !slices.Contains(user, "+"+strings.ToLower(command)) {
				t.Errorf("the docs do not permit %s, which %s calls", command, path)
			}
			if strings.HasPrefix(path, "../admission/") && !tried[command] {
				t.Errorf("the start does not try %s, which %s calls", command, path)
			}
		}
		return nil
	})
	if err != nil || scripts < 50 {
		t.Errorf("read %d scripts, %v", scripts, err)
	}
}

// Each command that the admission flow needs is missed by name. An error that is about to pass is not taken for a
// missing permission.
func TestForbiddenCommandIsNamed(t *testing.T) {
	t.Parallel()
	server := simulate.NewRedis(t)
	s := newFixture(t, server.Options(), 1)
	g := s.gate(nil)
	fail.NowIf(t, g.Try(t.Context()))
	fail.Unequal(t, s.client.DBSize(t.Context()).Val(), 0, "keys that the trial leaves")
	commands := slices.Sorted(maps.Keys(commandsOf(t, "ledger/trial.lua")))
	for _, command := range append(commands, "EVALSHA") {
		refuse := func(message string) {
			server.Refuse(func(c string, _ ...string) string {
				if c == command {
					return message
				}
				return ""
			})
		}
		refuse("NOPERM this user has no permissions to run the '" + strings.ToLower(command) + "' command")
		if err := g.Try(t.Context()); !errors.Is(err, ledger.ErrForbidden) || !strings.Contains(strings.ToUpper(err.Error()), command) {
			t.Errorf("%s is forbidden: %v", command, err)
		}
		refuse("READONLY You can't write against a read only replica.")
		if err := g.Try(t.Context()); command != "EVALSHA" && command != "EXISTS" && (err == nil || errors.Is(err, ledger.ErrForbidden)) {
			t.Errorf("%s to a replica: %v", command, err)
		}
	}
}
