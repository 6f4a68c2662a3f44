package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// NewValkey is [NewRedis] with a server of Valkey 9 or later, which has commands that redis-server has from 8.4 on:
// compare and delete, and compare and set.
func NewValkey(t TB, args ...string) *RedisServer {
	t.Helper()
	return newRedis(t, redisOptions{valkey: true, extra: args})
}

const valkeyHow = "where apt has none, scripts/valkey-root.sh provides it in a folder; else install Valkey 9 or newer"

// valkey prefers a valkey-server on the PATH that is new enough. Otherwise it looks into the folder that
// scripts/valkey-root.sh makes.
func valkey() (string, error) {
	if err := allowed(); err != nil {
		return "", err
	}
	if path, err := lookUp("valkey-server", valkeyHow); err == nil && valkeyMajor(path) >= 9 {
		return path, nil
	}
	missing := &MissingError{Server: "valkey-server 9", How: valkeyHow}
	root := os.Getenv("SECKILL_TEST_VALKEY_ROOT")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", missing
		}
		root = filepath.Join(cache, "seckill", "valkey-root")
	}
	path := filepath.Join(root, "valkey-server")
	if _, err := os.Stat(path); err != nil {
		return "", missing
	}
	return path, nil
}

// valkeyMajor returns the first number of a server's version, 0 if it tells none.
func valkeyMajor(path string) int {
	said, _ := exec.Command(path, "--version").Output() //nolint:gosec // a program that was found on the PATH
	version := regexp.MustCompile(`v=(\d+)`).FindSubmatch(said)
	if version == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(version[1]))
	return major
}
