package sources_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// TestSourcesPrintWhatTheySay runs the blocks that consist of redis-cli commands, each on an empty server, and compares
// what they print.
func TestSourcesPrintWhatTheySay(t *testing.T) {
	cli := testkit.Tool(t, "apt-get install redis-tools", "redis-cli")
	server := testkit.NewRedis(t)
	_, port, err := net.SplitHostPort(server.Addr())
	fail.NowIf(t, err)
	client := server.Client(t)
	if info := client.Info(t.Context(), "server").Val(); !strings.Contains(info, "redis_version:7.0.") {
		t.Skip("other versions of Redis word their errors differently")
	}
	path := redisCLI(t, cli, port)
	block := regexp.MustCompile("(?ms)^```console\n(\\$ redis-cli .*?)^```$")
	var blocks [][]string
	for _, page := range []string{"sources.md", "misconceptions.md"} {
		found := block.FindAllStringSubmatch(readPage(t, page), -1)
		if len(found) == 0 {
			t.Fatalf("docs/%s has no block of redis-cli commands", page)
		}
		blocks = append(blocks, found...)
	}
	for _, block := range blocks {
		fail.NowIf(t, client.FlushAll(t.Context()).Err())
		// A line that begins with "> " goes on with the command.
		for _, step := range strings.Split("\n"+strings.ReplaceAll(block[1], "\n> ", "\r"), "\n$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			command = strings.ReplaceAll(command, "\r", "\n")
			run := exec.CommandContext(t.Context(), "bash", "-c", command)
			run.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
			out, err := run.CombinedOutput()
			fail.If(t, err, "%s", command)
			if got := string(bytes.TrimSpace(out)); got != strings.TrimSpace(want) {
				t.Errorf("%s\nprinted %q\nwant    %q", command, got, want)
			}
		}
	}
}

// redisCLI returns a folder with a redis-cli that asks that port, and prints as it does in a terminal.
func redisCLI(t *testing.T, cli, port string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s --no-raw -p %s \"$@\"\n", cli, port)
	//nolint:gosec // it has to be executable
	fail.NowIf(t, os.WriteFile(filepath.Join(dir, "redis-cli"), []byte(script), 0o700))
	return dir
}
