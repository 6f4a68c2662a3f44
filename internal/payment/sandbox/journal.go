package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// record is a line of the journal: the new state of what changed. The last one of a payment or an event counts.
type record struct {
	Payment   *payment   `json:"payment,omitempty"`
	Event     *event     `json:"event,omitempty"`
	Behaviour *Behaviour `json:"behaviour,omitempty"`
}

// journal is a file to which records are appended, or nothing.
type journal struct{ file *os.File }

// openJournal opens or creates a journal and hands its records to replay. The part of a line that a killed process left
// at the end is cut off: whoever waited for it was not answered.
func openJournal(path string, replay func(record)) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	whole, err := readRecords(file, replay)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return &journal{file: file}, nil
}

// readRecords returns the length of the whole lines.
func readRecords(r io.Reader, replay func(record)) (whole int64, err error) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return whole, fmt.Errorf("the line at byte %d: %w", whole, err)
		}
		replay(rec)
		whole += int64(len(line))
	}
}

// append writes records, in one call: a process that is killed leaves all of them or, of the last, a part.
func (j *journal) append(records ...record) error {
	if j.file == nil {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, rec := range records {
		if err := encoder.Encode(rec); err != nil {
			return err
		}
	}
	_, err := j.file.Write(text.Bytes())
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
