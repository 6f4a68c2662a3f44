package testkit

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// reaper cleans up after a test binary that could not do so itself. It is a shell process in a
// process group of its own that reads lines from a pipe. Only the test binary holds the other end, so
// the end of the input means that the binary has died.
type reaper struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// reaperScript reads "+group N", "-group N", "+folder PATH" and "-folder PATH". At the end of the input
// it kills the process groups and removes the folders that were added and not removed from its lists.
// Paths are made by testBinary.folder and contain no newline.
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

func startReaper() (*reaper, error) {
	cmd := exec.Command("sh", "-c", reaperScript)
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
