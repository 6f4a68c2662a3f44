package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Behaviour is how the sandbox misbehaves. The zero value behaves well.
type Behaviour struct {
	// Duplicate is how often each event is delivered again after the receiver has accepted it.
	Duplicate int `json:"duplicate"`
	// DelayMS is how long each event waits before its first delivery.
	DelayMS int `json:"delay_ms"`
	// ReorderMS gathers the events of that time, and delivers the newest one first.
	ReorderMS int `json:"reorder_ms"`
	// Lose is the part of the events that is never delivered, 0 to 1.
	Lose float64 `json:"lose"`
	// SlowMS is how long the calls of the API wait between what they do and their answer.
	SlowMS int `json:"slow_ms"`
	// PayLateMS is how long money is on its way after the buyer has paid.
	PayLateMS int `json:"pay_late_ms"`
}

const (
	maxDuplicate = 100
	maxPause     = time.Hour
)

// ParseBehaviour reads a Behaviour from JSON. An unknown switch is an error: a sandbox that ignores a misspelt one
// behaves well, and what is tested with it seems to withstand what never happened.
func ParseBehaviour(text []byte) (b Behaviour, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Behaviour{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Behaviour{}, errors.New("something follows the object")
	}
	return b, b.Validate()
}

// Validate returns what is out of bounds.
func (b Behaviour) Validate() error {
	if b.Duplicate < 0 || b.Duplicate > maxDuplicate {
		return fmt.Errorf("duplicate is %d; 0 to %d", b.Duplicate, maxDuplicate)
	}
	if !(b.Lose >= 0 && b.Lose <= 1) { // also not a number
		return fmt.Errorf("lose is %v; 0 to 1", b.Lose)
	}
	for name, ms := range map[string]int{
		"delay_ms": b.DelayMS, "reorder_ms": b.ReorderMS, "slow_ms": b.SlowMS, "pay_late_ms": b.PayLateMS,
	} {
		if ms < 0 || ms > int(maxPause.Milliseconds()) {
			return fmt.Errorf("%s is %d; 0 to %d", name, ms, maxPause.Milliseconds())
		}
	}
	return nil
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// due is when an event that happens now is to be delivered first.
func (b Behaviour) due(now time.Time) time.Time {
	due := now.Add(milliseconds(b.DelayMS))
	if window := milliseconds(b.ReorderMS); window > 0 {
		due = due.Truncate(window).Add(window) // the end of the window that it falls into
	}
	return due
}
