package lockjudge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"seckill/internal/lab/lockjudge/serve"
)

// Exploration is what [Explore] is asked for.
type Exploration = serve.Exploration

// Explore lets the program of a lock that package serve serves explore that lock.
func Explore(ctx context.Context, command []string, what Exploration) (found serve.Explored, err error) {
	asked, err := json.Marshal(what)
	if err != nil {
		return found, err
	}
	var said tail
	//nolint:gosec // the caller's own program
	program := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], serve.ExploreArgument)...)
	program.Stdin, program.Stderr = bytes.NewReader(asked), &said
	answer, err := program.Output()
	if err == nil {
		err = json.Unmarshal(answer, &found)
	}
	if err != nil {
		return found, fmt.Errorf("the lock's program does not explore: %w\n%s", err, said.String())
	}
	return found, nil
}
