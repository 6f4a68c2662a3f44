package testkit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// reaper cleans up after a test binary that could not do so itself. It is a shell process in a process group of its own
// that reads lines from a pipe. Only the test binary holds the other end, so the end of the input means that the binary
// has died. Where there is no shell, it is this program again: see [MainIfReaper].
type reaper struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// reaperScript reads "+group N", "-group N", "+folder PATH" and "-folder PATH". At the end of the input it kills the
// process groups and removes the folders that were added and not removed from its lists. Paths are made by
// testBinary.folder and contain no newline.
const reaperScript = `
trap '' HUP INT TERM
groups=' '
folders=''
while read -r what value; do
  case $what in
  +group)  groups="$groups$value " ;;
  -group)  groups="${groups%% $value *} ${groups#* $value }" ;;
  +folder) folders="$folders$value
" ;;
  -folder) folders=$(printf %s "$folders" | grep -vxF -- "$value")
    [ -z "$folders" ] || folders="$folders
" ;;
  esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
printf %s "$folders" | while read -r folder; do
  for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$folder" 2>/dev/null && break; sleep 0.1; done
done
`

// reaperEnv is set in the process of a reaper that is not a shell.
const reaperEnv = "SECKILL_TESTKIT_REAPER"

// mayReap means that this program calls [MainIfReaper]: started again, it is a reaper and nothing else.
var mayReap atomic.Bool

// MainIfReaper turns this process into a reaper, and does not return, if it was started as one. A program that starts
// servers where there is no shell, as in an image with nothing but programs, calls it first in its main. [Main] does so
// for test binaries.
func MainIfReaper() {
	if os.Getenv(reaperEnv) == "" {
		mayReap.Store(true)
		return
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	reap(os.Stdin)
	os.Exit(0)
}

// reap does what reaperScript does.
func reap(orders io.Reader) {
	groups, folders := map[string]bool{}, map[string]bool{}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		switch what, value, _ := strings.Cut(lines.Text(), " "); what {
		case "+group":
			groups[value] = true
		case "-group":
			delete(groups, value)
		case "+folder":
			folders[value] = true
		case "-folder":
			delete(folders, value)
		}
	}
	for group := range groups {
		if pid, err := strconv.Atoi(group); err == nil {
			_ = signalGroup(pid, sigKill) // nobody is left to be told
		}
	}
	for folder := range folders {
		for range 10 { // a killed server may still write for a moment
			if os.RemoveAll(folder) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// reaperCommand prefers the shell, which is the smaller process.
func reaperCommand() (*exec.Cmd, error) {
	shell, err := exec.LookPath("sh")
	if err == nil {
		return exec.Command(shell, "-c", reaperScript), nil
	}
	self, noSelf := os.Executable()
	if !mayReap.Load() || noSelf != nil {
		return nil, errors.Join(err, noSelf)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reaperEnv+"=1")
	return cmd, nil
}

func startReaper() (*reaper, error) {
	cmd, err := reaperCommand()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reaper{cmd: cmd, stdin: stdin}, nil
}

func (j *reaper) addGroup(pid int) error       { return j.send("+group %d\n", pid) }
func (j *reaper) dropGroup(pid int) error      { return j.send("-group %d\n", pid) }
func (j *reaper) addFolder(path string) error  { return j.send("+folder %s\n", path) }
func (j *reaper) dropFolder(path string) error { return j.send("-folder %s\n", path) }

func (j *reaper) send(format string, args ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := fmt.Fprintf(j.stdin, format, args...); err != nil {
		return fmt.Errorf("write to the reaper: %w", err)
	}
	return nil
}

// close ends the reaper, which then kills and removes everything on its lists.
func (j *reaper) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.stdin.Close(); err != nil {
		return err
	}
	return j.cmd.Wait()
}
