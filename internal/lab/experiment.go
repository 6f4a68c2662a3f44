// Package lab is the laboratory: it reproduces, on demand and on real servers, every failure
// that a lock around a flash sale can have, counts it, and shows why.
//
// An [Experiment] is data: a hypothesis, a [Setup] (the mechanism and how it is used), a
// [Scenario] (what is done to it) and the expected verdict. The verdict is derived from what
// the stores hold and from the recorded history, never from what a mechanism promises: the
// same scenario with the setup of the experiment's partner comes to the other verdict, which
// [Lab.Swap] shows.
//
// The parts:
//
//	finding      the results: kinds of anomaly, witnesses, verdicts
//	testbed      the servers, API processes and buyers of a scenario
//	lockclient   child processes that use a lock step by step
//	flawed       programs with a mistake, such as those of the documents
//	load         the orders of many buyers
//	judge        from recorded events and stores to anomalies
//	witness      from anomalies to pictures
//	i18n         what is told of a run, in English and in Chinese
//	experiments  all experiments
//	report       the witness in a terminal, the report in a browser
//	byhand       a lock that is driven by hand
//	server       the laboratory as a page
//	catalogue    docs/failure-catalogue.md
//	lockjudge    which behaviours of a lock break, that it has never seen
//	course       lessons whose tasks are checked by all of these
//
// The walk from lab run ID to the picture: cmd/lab/run.go opens an environment of the testbed and calls [Lab.Run], which
// has the environment set up a rig and calls the experiment's scenario with a [Trial] on it. The scenario sells or locks
// on the rig, hands its evidence to [Trial.Judge], and the judge's incidents are drawn by witness and printed by report.
package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Document is one of the documents on which the project is based. They are Chinese and about
// Java. Name is a short title in English, by which texts refer to it; Title says what it is about.
type Document struct{ Name, Title string }

// Documents returns them.
func Documents() []Document {
	return []Document{
		{"From SETNX to Redisson", "SETNX, wrong deletion, atomicity, Redisson"},
		{"Locks in a database, ZooKeeper and Redis", "the three kinds compared, and what to watch out for"},
		{"Redisson in detail", "reentry, retry and watchdog, MultiLock"},
		{"The evolution of Redis locks", "from SETNX to a lock that is renewed, Redlock and the dispute about it"},
		{"How locks work", "leases and GC pauses, watchdog, asynchronous replication"},
	}
}

// Source is where a failure is described.
type Source struct {
	Document string `json:"document"` // the name of one of [Documents]
	Section  string `json:"section"`  // its heading, in English
}

// PublicReport is where a failure of a real program is reported in public: an issue or a pull request on GitHub.
type PublicReport struct {
	Repository string // OWNER/NAME
	Number     int
}

// String is the report as GitHub writes it.
func (r PublicReport) String() string { return fmt.Sprintf("%s#%d", r.Repository, r.Number) }

// URL is its address. GitHub leads from there to the pull request, if it is one.
func (r PublicReport) URL() string {
	return fmt.Sprintf("https://github.com/%s/issues/%d", r.Repository, r.Number)
}

// Setup is the part of an experiment that the hypothesis is about: the mechanism, and how it
// is used.
type Setup struct {
	// Policy is how the voucher is sold. Policy.Lock is the mechanism even if nothing is sold;
	// Policy.TTL and Policy.Wait are the lease and wait limit of an acquisition.
	Policy voucher.Policy `json:"policy"`
	// Watchdog is the lease of an acquisition that does not set one, unless the scenario does.
	Watchdog time.Duration `json:"watchdog_ns,omitempty"`
	// Instances is the number of API processes; 0: as the command line says.
	Instances int `json:"instances,omitempty"`
	// Deferred puts the release in a deferred call, which a panic does not skip.
	Deferred bool `json:"deferred,omitempty"`
	// Buyers, Stock, Work and Pause are numbers of the scenario, and Due is when the lock of a
	// dead holder must be free; 0: as the scenario has it.
	Buyers int           `json:"buyers,omitempty"`
	Stock  int           `json:"stock,omitempty"`
	Work   time.Duration `json:"work_ns,omitempty"`
	Pause  time.Duration `json:"pause_ns,omitempty"`
	Due    time.Duration `json:"due_ns,omitempty"`
	// Retries is how often a buyer that is told "busy" comes again.
	Retries int `json:"retries,omitempty"`
	// Inner is the lease that an inner call asks for.
	Inner time.Duration `json:"inner_lease_ns,omitempty"`
	// Durable makes Redis nodes write to disk before they answer.
	Durable bool `json:"durable,omitempty"`
	// Program is the program with a mistake that is run in place of the project's own.
	Program flawed.Name `json:"listing,omitempty"`
	// Nodes is the number of Redis nodes, and Down how many of them fail; 0: as the scenario
	// has it.
	Nodes int `json:"nodes,omitempty"`
	Down  int `json:"down,omitempty"`
	// Drift is by how many thousandths the clocks of nodes run too fast.
	Drift int `json:"drift,omitempty"`
}

// Experiment puts one question to a mechanism.
type Experiment struct {
	ID    string
	Group string // the heading of its comparison
	Title string
	// Question asks for the outcome without giving it away, unlike the title.
	Question string
	// Sources are the documents and sections that describe the failure.
	Sources []Source
	// Page is the page of the project that describes the failure, where no document does: its path in docs, without the
	// suffix.
	Page string
	// Reports are real programs that had the same fault.
	Reports []PublicReport
	// Hypothesis is what is expected, in a sentence that can turn out to be wrong.
	Hypothesis string
	// Arrangement says in a sentence or two what is done.
	Arrangement string
	// Why explains the result: what happened, why, and what the next mechanism changes.
	Why string
	// Seen and Cure are for the catalogue, if the experiment breaks: the symptoms in a few
	// words, and what helps.
	Seen, Cure string
	// Chinese are the same texts in Chinese.
	Chinese Texts

	Expect finding.Verdict
	// About are the kinds of anomaly that decide; empty: all. If the experiment is expected to
	// break, the first kind must be seen. Other kinds are counted and shown, but do not
	// decide.
	About []finding.Kind
	// Partner is the experiment whose setup comes to the other verdict in this scenario.
	Partner string

	// Needs are the servers that its setup requires; none: the embedded servers are good
	// enough. A scenario that runs with another experiment's setup needs that one's servers.
	Needs []testbed.Server
	// Quiet experiments leave the machine idle most of the time, and may run in parallel.
	Quiet bool

	Setup    Setup
	Scenario Scenario
	// Situation must arise in a run with this setup and its own numbers for a verdict that it holds; nil: it always does.
	Situation *Situation
	// Parameters are the values of the setup that can be changed, and Changed are those that
	// are; see [Experiment.With]. Where a value was changed the texts need not be true.
	Parameters []Parameter
	Changed    []finding.Change
	// Stretches says that lease, work and pause are all the times that the scenario has: with each
	// of them times the same factor it shows the same, in slow motion.
	Stretches bool
	// K6 are the options of loadtest/seckill.js, as NAME=value, that show the same failure
	// over HTTP, against a running service. Empty if it cannot be seen from outside.
	K6 []string
}

// Situation is what a setup brings about by its times alone, and a busy machine may prevent: a lease that ends in a pause.
// A run in which it did not arise says nothing about the lock.
type Situation struct {
	Arose  func(*judge.History) bool
	Missed i18n.Text // what did not happen then
}

// Scenario is what is done in an experiment. It reports what it observes to the trial.
type Scenario func(t *Trial, setup Setup)

// Texts are what people read about an experiment, in one language. See [Experiment].
type Texts struct{ Group, Title, Question, Hypothesis, Arrangement, Why, Seen, Cure string }

// English are the texts that are fields of the experiment.
func (e *Experiment) English() Texts {
	return Texts{e.Group, e.Title, e.Question, e.Hypothesis, e.Arrangement, e.Why, e.Seen, e.Cure}
}

// Says returns one of the experiment's texts in both languages.
func (e *Experiment) Says(which func(Texts) string) i18n.Text {
	return i18n.Both(which(e.English()), which(e.Chinese))
}

// Which of the texts [Experiment.Says] returns.
var (
	Group       = func(x Texts) string { return x.Group }
	Title       = func(x Texts) string { return x.Title }
	Question    = func(x Texts) string { return x.Question }
	Hypothesis  = func(x Texts) string { return x.Hypothesis }
	Arrangement = func(x Texts) string { return x.Arrangement }
	Why         = func(x Texts) string { return x.Why }
	Cure        = func(x Texts) string { return x.Cure }
)

// Lock is the name of the mechanism.
func (e *Experiment) Lock() string { return e.Setup.Policy.Lock }

// Command is the command line that repeats the experiment.
func (e *Experiment) Command() string {
	words := []string{"go run ./cmd/lab run", e.ID}
	for _, c := range e.Changed {
		words = append(words, "--"+c.Name, c.To)
	}
	return strings.Join(words, " ")
}

// K6Command is the k6 command that shows the same over HTTP; "" if it cannot be seen there.
func (e *Experiment) K6Command() string {
	if len(e.K6) == 0 {
		return ""
	}
	return "bin/k6 run -e BASE_URL=$two -e EXPERIMENT=" + e.ID + " loadtest/seckill.js"
}

// Decides reports whether anomalies of a kind decide about the verdict.
func (e *Experiment) Decides(kind finding.Kind) bool {
	return len(e.About) == 0 || slices.Contains(e.About, kind)
}

// validate reports what is wrong with an experiment.
func (e *Experiment) validate() error {
	var errs []error
	for field, value := range map[string]string{
		"ID": e.ID, "Group": e.Group, "Title": e.Title, "Question": e.Question, "Hypothesis": e.Hypothesis,
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
	case e.Scenario == nil:
		errs = append(errs, errors.New("has no scenario"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("experiment %q: %w", e.ID, err)
	}
	return nil
}

// Set is a list of experiments whose partners are in it.
type Set []Experiment

// Validate reports what is wrong with the experiments.
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

// ErrUnknownExperiment means that there is no experiment of that id.
var ErrUnknownExperiment = errors.New("lab: no such experiment")

// Find returns the experiment of that id, or [ErrUnknownExperiment].
func (s Set) Find(id string) (*Experiment, error) {
	for i := range s {
		if s[i].ID == id {
			return &s[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownExperiment, id)
}

// Select returns experiments in the order of their ids, each once; "all" is all of them. For an unknown id it returns
// [ErrUnknownExperiment] with similar ids.
func (s Set) Select(ids []string) ([]*Experiment, error) {
	var chosen []*Experiment
	var errs []error
	choose := func(e *Experiment) {
		if !slices.Contains(chosen, e) {
			chosen = append(chosen, e)
		}
	}
	for _, id := range ids {
		if id == "all" {
			for i := range s {
				choose(&s[i])
			}
			continue
		}
		e, err := s.Find(id)
		if err != nil {
			errs = append(errs, s.suggest(id, err))
			continue
		}
		choose(e)
	}
	return chosen, errors.Join(errs...)
}

// suggest names the experiments that share a word with id.
func (s Set) suggest(id string, err error) error {
	var near []string
	for _, e := range s {
		for word := range strings.SplitSeq(id, "-") {
			if len(word) > 2 && strings.Contains(e.ID, word) && !slices.Contains(near, e.ID) {
				near = append(near, e.ID)
			}
		}
	}
	if len(near) == 0 {
		return fmt.Errorf("%w; see lab list", err)
	}
	return fmt.Errorf("%w; perhaps %s", err, strings.Join(near[:min(5, len(near))], ", "))
}
