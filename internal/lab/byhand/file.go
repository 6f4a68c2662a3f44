package byhand

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// The head of a file.
const (
	fileFormat  = "seckill by hand"
	fileVersion = 1
)

// MaxFile is how long a file may be, in bytes.
const MaxFile = 64 << 10

// file is a setup and a script, to be read and changed by people.
type file struct {
	Format  string     `json:"format"`
	Version int        `json:"version"`
	Setup   Setup      `json:"setup"`
	Moves   []fileMove `json:"moves"`
}

// fileMove is a step.
type fileMove struct {
	Do      string `json:"do"`
	Process int    `json:"process,omitempty"`
	Node    int    `json:"node,omitempty"`
	// AfterMS is how long after the end of the move before it comes. With Beside it is counted
	// from the beginning of that move, whose end is not waited for.
	AfterMS int64 `json:"after_ms"`
	Beside  bool  `json:"beside,omitempty"`
}

// File writes what was done so far.
func (b *Bench) File() ([]byte, error) {
	b.mu.Lock()
	f := file{Format: fileFormat, Version: fileVersion, Setup: b.setup, Moves: []fileMove{}}
	steps := b.steps()
	b.mu.Unlock()
	for _, s := range steps {
		m := fileMove{Do: s.Action.name(), AfterMS: s.After.Milliseconds(), Beside: !s.Done}
		if s.Action.is(ofNode()) {
			m.Node = s.Number
		} else {
			m.Process = s.Number
		}
		f.Moves = append(f.Moves, m)
	}
	data, err := json.MarshalIndent(f, "", "  ")
	return append(data, '\n'), err
}

// ReadFile reads what [Bench.File] has written: a setup, and a script for [New]. Its errors are
// [Error]s, except for those of the reader. It reads little more than [MaxFile].
func ReadFile(r io.Reader) (s Setup, script string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return Setup{}, "", err
	}
	if len(data) > MaxFile {
		return Setup{}, "", wrong(TooLarge, values{"most": MaxFile >> 10}, "the file is longer than %d KiB", MaxFile>>10)
	}
	f, err := parseFile(data)
	if err != nil {
		return Setup{}, "", err
	}
	steps, err := f.steps()
	if err != nil {
		return Setup{}, "", err
	}
	return f.Setup, Script(steps), nil
}

// parseFile reads the head first: a newer version may have fields that this one does not know.
func parseFile(data []byte) (f file, err error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return file{}, wrong(NotJSON, values{"why": err.Error()}, "the file is not understood: %v", err)
	}
	switch {
	case head.Format != fileFormat:
		return file{}, wrong(WrongFormat, nil, "the file's format is %q, not %q", brief(head.Format), fileFormat)
	case head.Version != fileVersion:
		return file{}, wrong(WrongVersion, values{"version": head.Version, "known": fileVersion},
			"the file has version %d; only version %d is known", head.Version, fileVersion)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return file{}, wrong(NotJSON, values{"why": err.Error()}, "the file is not understood: %v", err)
	}
	return f, nil
}

// steps checks everything before anything is done.
func (f *file) steps() ([]Step, error) {
	if err := f.Setup.Validate(); err != nil {
		return nil, err
	}
	if len(f.Moves) == 0 {
		return nil, wrong(NoSteps, nil, "the file has no moves")
	}
	if err := checkLength(len(f.Moves)); err != nil {
		return nil, err
	}
	var steps []Step
	for _, m := range f.Moves {
		move, err := m.move()
		if err != nil {
			return nil, err
		}
		if err := move.check(f.Setup); err != nil {
			return nil, err
		}
		s, err := newStep(move, !m.Beside, m.AfterMS)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (m fileMove) move() (Move, error) {
	all := actions()
	i := slices.IndexFunc(all, func(w word) bool { return w.name == m.Do })
	if i < 0 {
		return Move{}, wrong(WrongMove, values{"move": brief(m.Do)}, "there is no move %q", brief(m.Do))
	}
	number, other := m.Process, m.Node
	if all[i].action.is(ofNode()) {
		number, other = m.Node, m.Process
	}
	if other != 0 {
		return Move{}, wrong(WrongMove, values{"move": m.Do}, "the move %q has both a process and a node, or the wrong one", m.Do)
	}
	return Move{all[i].action, number}, nil
}

// brief is the beginning of a text, for a message.
func brief(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		return fmt.Sprintf("%s…", string(runes[:most]))
	}
	return text
}
