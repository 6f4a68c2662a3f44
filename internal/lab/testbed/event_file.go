package testbed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"seckill/internal/eventlog"
)

// eventFile follows the event file of a process.
type eventFile struct {
	path string

	mu     sync.Mutex
	offset int64 // of what has been read, up to the end of a line
	events []eventlog.Event
}

// skipExisting ignores what has been written so far.
func (j *eventFile) skipExisting() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events, j.offset = nil, 0
	info, err := os.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing has been written yet, or the process records nothing
		return nil
	case err != nil:
		return err
	}
	j.offset = info.Size()
	return nil
}

// read returns all events up to now. An incomplete last line, or one that a death cut off, is
// ignored.
func (j *eventFile) read() ([]eventlog.Event, error) {
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
	fresh, err := eventlog.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.path, err)
	}
	j.offset += int64(len(data))
	j.events = append(j.events, fresh...)
	return slices.Clip(j.events), nil
}
