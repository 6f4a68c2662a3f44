package locktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// ReportFile is the environment variable that names the file for [Report]s.
const ReportFile = "LOCKTEST_REPORT"

// Report is the result of one run of one mechanism: a line of JSON in the report file.
type Report struct {
	Mechanism     string `json:"mechanism"`
	Holds         int    `json:"holds"`
	Breaks        int    `json:"breaks"`
	NotApplicable int    `json:"not_applicable"`
	Disproven     int    `json:"disproven"`
	// Claims has a [Verdict] for each behaviour.
	Claims map[Behaviour]Verdict `json:"claims"`
	// Order lists the behaviours in the order of the suite.
	Order []Behaviour `json:"order"`
}

// Verdict is a claim together with whether the run proved it.
type Verdict struct {
	Claim  string `json:"claim"` // holds, breaks or n.a.
	Reason string `json:"reason,omitempty"`
	Seen   string `json:"seen,omitempty"` // what a trial observed of a behaviour that breaks
	// Disproven reports that the claim is wrong or that its trial could not be run.
	Disproven bool `json:"disproven,omitempty"`
}

// count adds the results up.
func (f *results) count() Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := Report{Mechanism: cmp.Or(f.mechanism, folder()), Claims: make(map[Behaviour]Verdict)}
	for _, b := range f.behaviours {
		claim := f.promises[b.name]
		verdict := Verdict{Claim: string(claim.kind), Reason: claim.reason}
		found, tried := f.seen[b.name]
		if found != nil {
			verdict.Seen = found.Error()
		}
		switch {
		case claim.kind == notApplicable:
			r.NotApplicable++
		case !tried:
			continue // excluded by -run
		case claim.verify(found) != nil:
			verdict.Disproven = true
			r.Disproven++
		case claim.kind == holds:
			r.Holds++
		default:
			r.Breaks++
		}
		r.Order = append(r.Order, b.name)
		r.Claims[b.name] = verdict
	}
	return r
}

// folder is the name of the folder in which the tests run.
func folder() string {
	dir, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return filepath.Base(dir)
}

// String returns one line with the counts.
func (r Report) String() string {
	s := fmt.Sprintf("%s: %d behaviours: %d hold, %d break (proven), %d not applicable",
		r.Mechanism, len(r.Claims), r.Holds, r.Breaks, r.NotApplicable)
	if r.Disproven > 0 {
		s += fmt.Sprintf(", %d DISPROVEN", r.Disproven)
	}
	return s
}

// report appends r to the report file, if there is one.
func (r Report) report() error {
	path := os.Getenv(ReportFile)
	if path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("locktest: report: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("locktest: report: %w", err)
	}
	_, err = file.Write(append(line, '\n')) // one write, so that packages tested at the same time do not mix
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
