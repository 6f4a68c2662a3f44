package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"seckill/internal/trace"
)

// journal follows the trace file of a process.
type journal struct {
	path string

	mu     sync.Mutex
	offset int64 // of what has been read, up to the end of a line
	events []trace.Event
}

// forget leaves out what has been written so far.
func (j *journal) forget() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events, j.offset = nil, 0
	info, err := os.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing has been written yet, or never is
		return nil
	case err != nil:
		return err
	}
	j.offset = info.Size()
	return nil
}

// read returns all events up to now. A line that is not whole yet, or that a death cut
// off, is left out.
func (j *journal) read() ([]trace.Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := os.Open(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, j.offset, 1<<62))
	if err != nil {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	fresh, err := trace.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.path, err)
	}
	j.offset += int64(len(data))
	j.events = append(j.events, fresh...)
	return slices.Clip(j.events), nil
}
