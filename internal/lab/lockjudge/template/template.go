// Package template has locks to learn with: each does one thing wrong, which its goal names.
package template

import (
	"embed"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"seckill/internal/lock/locktest"
)

//go:embed *.go.txt
var sources embed.FS

// Template is a lock with one mistake.
type Template struct {
	Name string
	// Goal is the behaviour that breaks by the mistake.
	Goal locktest.Behaviour
	file string // the program that it is made from
	// changes are pairs of texts: what makes the mistake in that program, and what mends it again.
	mistake, mended []string
}

// Default is what lab new-lock writes.
const Default = "release"

// Templates lists them.
func Templates() []Template {
	return []Template{
		{Name: "delete", Goal: locktest.ReleasesOnlyOwn, file: "lock", mistake: []string{compares, deletes, "\t\"survives-lost-release-reply\",\n", "\t\"survives-lost-release-reply\",\n\t// It does not ask whose lock it deletes, and in which step.\n\t\"tells-expired-from-lost\", \"releases-atomically\",\n"}, mended: []string{deletes, compares}},
		{Name: "name", Goal: locktest.KeepsKeysApart, file: "lock", mistake: []string{"\t\"survives-lost-release-reply\",\n", "\t\"survives-lost-release-reply\",\n\t// It compares and deletes in two steps.\n\t\"releases-atomically\",\n", `"NAME:{"+key+"}"`, `fmt.Sprintf("NAME:{%.4s}", key)`}, mended: []string{`fmt.Sprintf("NAME:{%.4s}", key)`, `"NAME:{"+key+"}"`}},
		{Name: Default, Goal: locktest.ReleasesAtomically, file: "lock", mended: []string{compares, compareAndDelete}},
		{Name: "watchdog", Goal: locktest.RenewsOnlyOwn, file: "watchdog", mended: []string{renewsBlindly, renewsOwn}},
		{Name: "reentry", Goal: locktest.InnerDoesNotShorten, file: "reentry", mended: []string{shortens, prolongs}},
	}
}

// Find returns a template by its name.
func Find(name string) (Template, error) {
	for _, t := range Templates() {
		if t.Name == name {
			return t, nil
		}
	}
	return Template{}, fmt.Errorf("template: there is none called %q", name)
}

// Change is the text that mends the mistake.
func (t Template) Change() string { return t.mended[1] }

// LeavesOut are the behaviours that the lock does not promise.
func (t Template) LeavesOut() []locktest.Behaviour {
	_, list, _ := strings.Cut(t.Source("x"), "var leavesOut = []string{")
	list, _, _ = strings.Cut(list, "\n}")
	out := []locktest.Behaviour{}
	for line := range strings.Lines(list) {
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		for word := range strings.SplitSeq(line, ",") {
			if name, err := strconv.Unquote(strings.TrimSpace(word)); err == nil {
				out = append(out, locktest.Behaviour(name))
			}
		}
	}
	return out
}

// Source is the program of a lock in a folder, which it is called after, with the mistake.
func (t Template) Source(folder string) string { return t.source(folder, t.mistake) }

// Solution is the same program, mended.
func (t Template) Solution(folder string) string { return t.source(folder, t.mistake, t.mended) }

func (t Template) source(folder string, changes ...[]string) string {
	text, err := sources.ReadFile(t.file + ".go.txt")
	if err != nil {
		panic(err) // a test opens all of them
	}
	program := string(text)
	for _, pairs := range changes {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(program, pairs[i]) != 1 {
				panic(fmt.Sprintf("template %s: %q is not there once", t.Name, pairs[i]))
			}
			program = strings.Replace(program, pairs[i], pairs[i+1], 1)
		}
	}
	where := filepath.ToSlash(folder)
	if !filepath.IsAbs(folder) {
		where = "./" + where
	}
	return strings.NewReplacer("NAME", filepath.Base(folder), "FOLDER", where).Replace(program)
}

// The texts that are changed.
const (
	compares = `	stored, err := l.client.Get(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return lock.ErrExpired
	case err != nil:
		return unavailable(ctx, err)
	case stored != value:
		return lock.ErrLost
	}
	return unavailable(ctx, l.client.Del(ctx, name).Err())
`
	deletes = `	return unavailable(ctx, l.client.Del(ctx, name).Err())
`
	compareAndDelete = `	deleted, err := l.client.Eval(ctx, ` + "`" + `
		local stored = redis.call('GET', KEYS[1])
		if not stored then return 0 end
		if stored ~= ARGV[1] then return -1 end
		return redis.call('DEL', KEYS[1])` + "`" + `, []string{name}, value).Int()
	switch {
	case err != nil:
		return unavailable(ctx, err)
	case deleted == 0:
		return lock.ErrExpired
	case deleted < 0:
		return lock.ErrLost
	}
	return nil
`
	renewsBlindly = `l.client.PExpire(ctx, name, l.watchdog).Result()
`
	renewsOwn = `l.client.Eval(ctx, ` + "`" + `
		if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
		return redis.call('PEXPIRE', KEYS[1], ARGV[2])` + "`" + `, []string{name}, value, l.watchdog.Milliseconds()).Bool()
`
	shortens = `	redis.call('PEXPIRE', KEYS[1], ARGV[2])
`
	prolongs = `	if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
	end
`
)
