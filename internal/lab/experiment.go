// Package lab is the laboratory: it brings about, on demand and on real servers,
// every failure that a lock around a flash sale can have, counts it, and shows why.
//
// An [Experiment] is data: a hypothesis, a [Setup] (the mechanism and how it is
// used), a [Scene] (what is done to it) and the verdict that is expected. What is
// observed is judged from what the stores hold and from the recorded history, never
// from what a mechanism is supposed to do: the same scene with the setup of the
// experiment's partner comes to the other verdict, which [Lab.Swap] shows.
//
// The parts:
//
//	finding     what is found: kinds of anomaly, witnesses, results
//	stage       the servers, API processes and buyers that a scene plays with
//	actor       child processes that use a lock step by step
//	judge       from history and stores to anomalies and witnesses
//	experiments all of them
//	report      the witness in a terminal, the report in a browser, the catalogue
package lab

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Document is one of those that the project grew from. They are Chinese and about
// Java; the titles are translated.
type Document struct{ Name, Title string }

// Documents lists them.
func Documents() []Document {
	return []Document{
		{"000", "Distributed locks: SETNX, wrong deletion, atomicity, Redisson"},
		{"001", "Distributed locks: the database, ZooKeeper, Redis, and what to watch out for"},
		{"002", "Redisson in detail: reentry, retry and watchdog, MultiLock"},
		{"003", "How to implement a Redis lock: its evolution, Redlock and the dispute about it"},
		{"004", "How locks work: leases and GC pauses, watchdog, asynchronous replication"},
	}
}

// Source is where a failure is described.
type Source struct {
	Document string `json:"document"` // the name of one of [Documents]
	Section  string `json:"section"`  // its heading, in English
}

// Setup is the part of an arrangement that the hypothesis is about: the mechanism,
// and how it is used.
type Setup struct {
	// Policy is how the voucher is sold. Policy.Lock is the mechanism also where
	// nothing is sold, Policy.TTL and Policy.Wait are what an acquisition asks for.
	Policy voucher.Policy `json:"policy"`
	// Watchdog is the lease of an acquisition that asks for none, where the scene
	// leaves it open.
	Watchdog time.Duration `json:"watchdog_ns,omitempty"`
	// Instances is the number of API processes; 0 is what the command line says.
	Instances int `json:"instances,omitempty"`
	// Deferred releases stand in a deferred call, which a panic does not skip.
	Deferred bool `json:"deferred,omitempty"`
	// Durable Redis nodes keep on disk what they were told.
	Durable bool `json:"durable,omitempty"`
}

// Experiment is one question to a mechanism.
type Experiment struct {
	ID    string
	Group string // the failure that it and its partner are about, as a heading
	Title string
	// Sources are the documents and sections that the failure is described in.
	Sources []Source
	// Hypothesis is what is expected, in a sentence that can turn out wrong.
	Hypothesis string
	// Arrangement says in a sentence or two what is done.
	Arrangement string
	// Why explains what is seen: what happened, why, and what the next mechanism
	// changes.
	Why string
	// Seen and Cure are the catalogue's, for an experiment that breaks: in a few
	// words what one sees, and what helps.
	Seen, Cure string

	Expect finding.Verdict
	// About are the kinds of anomaly that decide; empty: all. Where the experiment is
	// to break, the first one must be seen. The others are counted and shown, and
	// decide nothing.
	About []finding.Kind
	// Partner is the experiment whose setup, in this scene, comes to the other
	// verdict.
	Partner string

	// Needs are the servers without which its setup says nothing; none: the embedded
	// stand-ins are honest enough. A scene that is played with another's setup has the
	// needs of that one.
	Needs []stage.Server
	// Quiet experiments leave the machine idle most of the time, and may run beside
	// each other.
	Quiet bool

	Setup Setup
	Scene Scene
	// K6 are the options of loadtest/seckill.js, as NAME=value, that show the same
	// from outside, against a service that runs already. Empty where it cannot be
	// seen from there.
	K6 []string
}

// Scene is what is done in an experiment. It tells the play what it sees.
type Scene func(p *Play, with Setup)

// Lock is the name of the mechanism.
func (e *Experiment) Lock() string { return e.Setup.Policy.Lock }

// Command repeats the experiment.
func (e *Experiment) Command() string { return "go run ./cmd/lab run " + e.ID }

// decides says whether anomalies of a kind decide about the verdict.
func (e *Experiment) decides(kind finding.Kind) bool {
	return len(e.About) == 0 || slices.Contains(e.About, kind)
}

// validate says what is wrong with an experiment as data.
func (e *Experiment) validate() error {
	var errs []error
	for field, value := range map[string]string{
		"ID": e.ID, "Group": e.Group, "Title": e.Title, "Hypothesis": e.Hypothesis,
		"Arrangement": e.Arrangement, "Why": e.Why, "Partner": e.Partner,
	} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is empty", field))
		}
	}
	if _, err := lock.Lookup(e.Lock()); err != nil {
		errs = append(errs, err)
	}
	if err := e.Setup.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case e.Expect != finding.Breaks && e.Expect != finding.Holds:
		errs = append(errs, fmt.Errorf("expects %q", e.Expect))
	case e.Expect == finding.Breaks && len(e.About) == 0:
		errs = append(errs, errors.New("is to break, and does not say how"))
	case e.Expect == finding.Breaks && (e.Seen == "" || e.Cure == ""):
		errs = append(errs, errors.New("breaks, and does not say what is seen or what helps"))
	case e.Scene == nil:
		errs = append(errs, errors.New("has no scene"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("experiment %q: %w", e.ID, err)
	}
	return nil
}

// Set is a list of experiments whose partners are in it.
type Set []Experiment

// Validate says what is wrong with the experiments as data.
func (s Set) Validate() error {
	var errs []error
	for i := range s {
		e := &s[i]
		errs = append(errs, e.validate())
		partner, err := s.Find(e.Partner)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("experiment %q: its partner: %w", e.ID, err))
		case partner.Expect == e.Expect:
			errs = append(errs, fmt.Errorf("experiment %q: its partner %q is to come to the same verdict", e.ID, partner.ID))
		}
		for _, other := range s[:i] {
			if other.ID == e.ID {
				errs = append(errs, fmt.Errorf("two experiments are called %q", e.ID))
			}
		}
	}
	return errors.Join(errs...)
}

// ErrNoExperiment is asked for an experiment that there is not.
var ErrNoExperiment = errors.New("lab: no such experiment")

// Find returns the experiment of that id, or [ErrNoExperiment].
func (s Set) Find(id string) (*Experiment, error) {
	for i := range s {
		if s[i].ID == id {
			return &s[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNoExperiment, id)
}
