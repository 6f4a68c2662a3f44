package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/auth"
	"seckill/internal/testkit/fail"
)

const secret = "a secret that is long enough for HS256"

// The tokens are those of the users that were asked for, one on each line or in one JSON array, until their time is
// over.
func TestTokens(t *testing.T) {
	t.Setenv(secretEnv, secret)
	for _, c := range []struct {
		args []string
		read func(out string) (list []string, err error)
		want []int64
	}{
		{[]string{"--users", "3", "--first-user", "40"}, perLine, []int64{40, 41, 42}},
		{[]string{"--users", "1", "--format", "k6"}, array, []int64{1}},
		{[]string{"--users", "3", "--format", "k6"}, array, []int64{1, 2, 3}},
	} {
		code, stdout, stderr := call(t, append([]string{"tokens"}, c.args...)...)
		list, err := c.read(stdout)
		if code != exitOK || stderr != "" || err != nil {
			t.Fatalf("%q: exit code %d, stderr %q, %v", c.args, code, stderr, err)
		}
		if users := verify(t, list); !slices.Equal(users, c.want) {
			t.Errorf("%q: tokens of %v, want %v", c.args, users, c.want)
		}
	}
	_, stdout, _ := call(t, "tokens", "--users", "1", "--ttl", "10m")
	token := strings.TrimSpace(stdout)
	for after, good := range map[time.Duration]bool{9 * time.Minute: true, 11 * time.Minute: false} {
		later, err := auth.NewTokens([]byte(secret), func() time.Time { return time.Now().Add(after) })
		fail.NowIf(t, err)
		if _, err := later.Verify(token); (err == nil) != good {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

func perLine(out string) ([]string, error) {
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n"), nil
}

func array(out string) (list []string, err error) {
	err = json.Unmarshal([]byte(out), &list)
	return list, err
}

func TestTokensWithTheSecretOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwt-secret")
	fail.NowIf(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
	t.Setenv(secretEnv, "")
	t.Setenv(secretFileEnv, path)
	code, stdout, stderr := call(t, "tokens", "--users", "1")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	if users := verify(t, []string{strings.TrimSpace(stdout)}); !slices.Equal(users, []int64{1}) {
		t.Errorf("tokens of %v", users)
	}
	t.Setenv(secretEnv, secret)
	if code, _, stderr := call(t, "tokens", "--users", "1"); code != exitUsage || !strings.Contains(stderr, secretFileEnv) || strings.Contains(stderr, secret) {
		t.Errorf("both are given: exit code %d, stderr %q", code, stderr)
	}
	t.Setenv(secretEnv, "")
	t.Setenv(secretFileEnv, path+"-missing")
	if code, _, stderr := call(t, "tokens", "--users", "1"); code != exitUsage || !strings.Contains(stderr, secretFileEnv) {
		t.Errorf("a missing file: exit code %d, stderr %q", code, stderr)
	}
}

func TestVegetaTargetsCarryTokens(t *testing.T) {
	t.Setenv(secretEnv, secret)
	code, stdout, stderr := call(t, "tokens", "--users", "5", "--format", "vegeta", "--voucher", "9007199254740993",
		"--base-url", "http://127.0.0.1:8080/,http://127.0.0.1:8081", "--base-url", "https://shop.example")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	const path = "/api/v1/vouchers/9007199254740993/orders"
	wantURLs := []string{
		"http://127.0.0.1:8080" + path, "http://127.0.0.1:8081" + path, "https://shop.example" + path,
		"http://127.0.0.1:8080" + path, "http://127.0.0.1:8081" + path,
	}
	var urls, list []string
	for _, r := range decodeVegeta(t, stdout) {
		urls = append(urls, r.URL)
		list = append(list, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}
	if !slices.Equal(urls, wantURLs) {
		t.Errorf("urls\n%v, want\n%v", urls, wantURLs)
	}
	if users := verify(t, list); !slices.Equal(users, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("tokens of %v, want 1 to 5", users)
	}
}

// Without a secret the targets are those of user ids, and it says so.
func TestVegetaTargetsWithoutASecret(t *testing.T) {
	t.Setenv(secretEnv, "")
	code, stdout, stderr := call(t, "tokens", "--users", "2", "--first-user", "7", "--format", "vegeta", "--voucher", "12", "--base-url", "http://h")
	if code != exitOK || !strings.Contains(stderr, "X-User-ID") {
		t.Fatalf("exit code %d, stderr %q: it must say that these are no tokens", code, stderr)
	}
	var users []string
	for _, r := range decodeVegeta(t, stdout) {
		users = append(users, map[string][]string(r.Header)["X-User-ID"]...) // as it stands in the file
	}
	if want := []string{"7", "8"}; !slices.Equal(users, want) {
		t.Errorf("the users are %v, want %v", users, want)
	}
}

func TestShortSecretIsRefusedAndNotShown(t *testing.T) {
	const short = "hunter2-hunter2"
	t.Setenv(secretEnv, short)
	code, stdout, stderr := call(t, "tokens", "--users", "1")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, secretEnv) || strings.Contains(stderr, short) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// A file that is there is replaced. A fresh clone has no folder loadtest/out, which the help writes to. Nobody else
// reads the tokens.
func TestOutputFile(t *testing.T) {
	t.Setenv(secretEnv, secret)
	there, folder := filepath.Join(t.TempDir(), "tokens.txt"), filepath.Join(t.TempDir(), "loadtest", "out")
	fail.NowIf(t, os.WriteFile(there, []byte("from before\n"), 0o644))
	for _, path := range []string{there, filepath.Join(folder, "tokens.txt")} {
		if code, stdout, stderr := call(t, "tokens", "--users", "2", "-o", path); code != exitOK || stdout != "" || stderr != "" {
			t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
		body, err := os.ReadFile(path)
		fail.NowIf(t, err)
		if users := verify(t, strings.Fields(string(body))); !slices.Equal(users, []int64{1, 2}) {
			t.Errorf("tokens of %v, want 1 and 2", users)
		}
		wantMode(t, path, 0o600)
	}
	wantMode(t, folder, 0o700)
	wantMode(t, filepath.Dir(folder), 0o700)
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	fail.NowIf(t, err)
	fail.Unequal(t, info.Mode().Perm(), want, "the mode of %s", path)
}

func TestInterruptedOutputLeavesTheFileAsItWas(t *testing.T) {
	t.Setenv(secretEnv, secret)
	path := filepath.Join(t.TempDir(), "tokens.txt")
	fail.NowIf(t, os.WriteFile(path, []byte("from before\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"tokens", "--users", "2", "-o", path}, &stdout, &stderr); code != exitFailed {
		t.Errorf("exit code %d, want 1; stderr %q", code, stderr.String())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	fail.NowIf(t, err)
	body, err := os.ReadFile(path)
	if err != nil || string(body) != "from before\n" || len(entries) != 1 {
		t.Errorf("%q, %v, %d files", body, err, len(entries))
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Setenv(secretEnv, secret)
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"tokens", "--users", "5000"}, fullDisk{}, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), errFull.Error()) {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// verify returns the users of tokens.
func verify(t *testing.T, list []string) []int64 {
	t.Helper()
	verifier, err := auth.NewTokens([]byte(secret), time.Now)
	fail.NowIf(t, err)
	var users []int64
	for _, token := range list {
		user, err := verifier.Verify(token)
		fail.NowIf(t, err, "%q", token)
		users = append(users, user)
	}
	return users
}

// vegetaTarget has the fields of vegeta's target.schema.json; others are not allowed.
type vegetaTarget struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// decodeVegeta reads the targets of orders: one JSON object per line.
func decodeVegeta(t *testing.T, targets string) (all []vegetaTarget) {
	t.Helper()
	for line := range strings.Lines(targets) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var r vegetaTarget
		if err := d.Decode(&r); err != nil || r.Method != http.MethodPost {
			t.Fatalf("%q, %v in %s", r.Method, err, line)
		}
		all = append(all, r)
	}
	return all
}
