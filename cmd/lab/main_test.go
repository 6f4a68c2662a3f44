package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// call runs lab as a shell would, without a secret unless the test set one.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// Help names every command, and fits a terminal, apart from that of tokens with its command lines of other programs.
func TestHelp(t *testing.T) {
	asked := map[string]string{
		"help": "usage: lab COMMAND", "--help": "usage: lab COMMAND", "-h": "usage: lab COMMAND",
		"tokens --help": "usage: lab tokens", "tokens -h": "usage: lab tokens",
	}
	for _, c := range commands() {
		asked["help "+c.name] = "usage: lab " + c.name
	}
	for args, want := range asked {
		code, stdout, stderr := call(t, strings.Fields(args)...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("lab %s: exit code %d, stderr %q, stdout %q; want 0, nothing, and %q in it", args, code, stderr, stdout, want)
		}
		for line := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > narrow && !strings.Contains(args, "tokens") {
				t.Errorf("lab %s: %d columns: %s", args, n, line)
			}
		}
		for _, c := range commands() {
			if want == "usage: lab COMMAND" && !strings.Contains(stdout, "\n  "+c.name+" ") {
				t.Errorf("lab %s does not name %s:\n%s", args, c.name, stdout)
			}
		}
	}
}

func TestWelcomeFitsATerminal(t *testing.T) {
	for line := range strings.Lines(greeting + farewell) {
		if utf8.RuneCountInString(line) > narrow+1 { // and its end
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "-version", "--version"} {
		if code, stdout, stderr := call(t, arg); code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "lab ") || !strings.Contains(stdout, ", go1.") {
			t.Errorf("lab %s: exit code %d, stderr %q, stdout %q", arg, code, stderr, stdout)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	vegeta := []string{"tokens", "--users", "1", "--format", "vegeta"}
	for name, tc := range map[string]struct {
		args []string
		want string // in the message
	}{
		"unknown command":    {[]string{"sell"}, `no command "sell"`},
		"help about nothing": {[]string{"help", "sell"}, `no command "sell"`},
		"no users":           {[]string{"tokens"}, "--users is 0"},
		"negative users":     {[]string{"tokens", "--users", "-1"}, "--users is -1"},
		"users in words":     {[]string{"tokens", "--users", "many"}, "many"},
		"unknown flag":       {[]string{"tokens", "--buyers", "1"}, "-buyers"},
		"stray argument":     {[]string{"tokens", "--users", "1", "jwt"}, `"jwt"`},
		"unknown format":     {[]string{"tokens", "--users", "1", "--format", "wrk"}, "jwt, k6 or vegeta"},
		"no first user":      {[]string{"tokens", "--users", "1", "--first-user", "0"}, "--first-user is 0"},
		"too many users":     {[]string{"tokens", "--users", "2", "--first-user", "9223372036854775807"}, "beyond the largest"},
		"ttl too short":      {[]string{"tokens", "--users", "1", "--ttl", "1ms"}, "--ttl is 1ms"},
		"ttl too long":       {[]string{"tokens", "--users", "1", "--ttl", "10000h"}, "--ttl is"},
		"vegeta, no voucher": {vegeta, "needs --voucher"},
		"voucher zero":       {append(vegeta, "--voucher", "0"), `--voucher is "0"`},
		"voucher in words":   {append(vegeta, "--voucher", "it"), `--voucher is "it"`},
		"no scheme":          {append(vegeta, "--voucher", "1", "--base-url", "127.0.0.1:8080"), "-base-url"},
		"query in base url":  {append(vegeta, "--voucher", "1", "--base-url", "http://h?a=b"), "want http://host:port"},
		"voucher for jwt":    {[]string{"tokens", "--users", "1", "--voucher", "1"}, "go with --format vegeta"},
		"jwt, no secret":     {[]string{"tokens", "--users", "1"}, secretEnv + " is not set"},
		"k6, no secret":      {[]string{"tokens", "--users", "1", "--format", "k6"}, secretEnv + " is not set"},
		"output is a folder": {append(vegeta, "--voucher", "1", "-o", t.TempDir()), "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(secretEnv, "")
			code, stdout, stderr := call(t, tc.args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2, nothing, and %q in it", code, stdout, stderr, tc.want)
			}
		})
	}
}
