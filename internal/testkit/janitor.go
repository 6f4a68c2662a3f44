package testkit

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// janitor cleans up after a test binary that could not do it itself. It is a shell process in a group of its own that
// reads lines from a pipe whose other end only the test binary holds. The end of the input means that the binary is gone.
type janitor struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// janitorScript reads "+group N", "-group N", "+folder PATH" and "-folder PATH". At the end it kills the process groups
// and removes the folders that were added and not taken off again. Paths come from os.MkdirTemp and hold no newline.
const janitorScript = `
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

func startJanitor() (*janitor, error) {
	cmd := exec.Command("sh", "-c", janitorScript)
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &janitor{cmd: cmd, stdin: stdin}, nil
}

func (j *janitor) addGroup(pid int) error       { return j.tell("+group %d\n", pid) }
func (j *janitor) dropGroup(pid int) error      { return j.tell("-group %d\n", pid) }
func (j *janitor) addFolder(path string) error  { return j.tell("+folder %s\n", path) }
func (j *janitor) dropFolder(path string) error { return j.tell("-folder %s\n", path) }

func (j *janitor) tell(format string, args ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := fmt.Fprintf(j.stdin, format, args...); err != nil {
		return fmt.Errorf("tell the janitor: %w", err)
	}
	return nil
}

// close ends the janitor; it removes whatever is still on its list.
func (j *janitor) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.stdin.Close(); err != nil {
		return err
	}
	return j.cmd.Wait()
}
