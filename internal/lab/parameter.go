package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

// Parameter is a value of a setup that can be changed for a run, within bounds.
type Parameter struct {
	Name   string    // such as "lease"
	About  i18n.Text // what it is
	Bounds string    // such as "50ms to 10s"
	// Choices are the values of one that is a name; nil: a number or a duration.
	Choices []string

	get func(Setup) string
	set func(*Setup, string) error
	has func(Setup) bool // nil: every setup has it
}

// ParameterError means that an experiment has no such parameter, or that a value is out of its bounds.
type ParameterError struct {
	Experiment string
	Reason     i18n.Text
}

// Error implements error.
func (e *ParameterError) Error() string { return e.Text().String() }

// Text is the error in all languages.
func (e *ParameterError) Text() i18n.Text { return i18n.Sentences(i18n.Plain(e.Experiment), e.Reason) }

// DurationParameter is a duration.
func DurationParameter(name string, about i18n.Text, least, most time.Duration, get func(Setup) time.Duration, set func(*Setup, time.Duration)) Parameter {
	p := Parameter{Name: name, About: about, Bounds: fmt.Sprintf("%v to %v", least, most)}
	p.get = func(s Setup) string { return get(s).String() }
	p.set = func(s *Setup, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most || d%time.Millisecond != 0 {
			return p.refuse(text)
		}
		set(s, d)
		return nil
	}
	return p
}

// CountParameter is a number of something.
func CountParameter(name string, about i18n.Text, least, most int, get func(Setup) int, set func(*Setup, int)) Parameter {
	p := Parameter{Name: name, About: about, Bounds: fmt.Sprintf("%d to %d", least, most)}
	p.get = func(s Setup) string { return strconv.Itoa(get(s)) }
	p.set = func(s *Setup, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return p.refuse(text)
		}
		set(s, n)
		return nil
	}
	return p
}

// ChoiceParameter is one of several names.
func ChoiceParameter(name string, about i18n.Text, choices []string, get func(Setup) string, set func(*Setup, string)) Parameter {
	p := Parameter{Name: name, About: about, Bounds: strings.Join(choices, ", "), Choices: choices, get: get}
	p.set = func(s *Setup, text string) error {
		if !slices.Contains(choices, text) {
			return p.refuse(text)
		}
		set(s, text)
		return nil
	}
	return p
}

// refuse is the error for a value that is out of bounds.
func (p Parameter) refuse(text string) error {
	return &refusedValueError{i18n.F("cannot have --%s %q; it can be %s", p.Name, text, p.Bounds)}
}

type refusedValueError struct{ why i18n.Text }

// Error implements error.
func (e *refusedValueError) Error() string { return e.why.String() }

// For restricts a parameter to setups that have it.
func (p Parameter) For(has func(Setup) bool) Parameter {
	p.has = has
	return p
}

// Named replaces how a value is shown, such as a 0 that stands for something else.
func (p Parameter) Named(value, name string) Parameter {
	get := p.get
	p.get = func(s Setup) string {
		if text := get(s); text != value {
			return text
		}
		return name
	}
	return p
}

// in reports whether a setup has the parameter.
func (p Parameter) in(s Setup) bool { return p.has == nil || p.has(s) }

// Value is the parameter's value in a setup.
func (p Parameter) Value(s Setup) string { return p.get(s) }

// Changeable returns the parameters that the experiment's setup has.
func (e *Experiment) Changeable() []Parameter {
	return slices.DeleteFunc(slices.Clone(e.Parameters), func(p Parameter) bool { return !p.in(e.Setup) })
}

// With returns the experiment with other values of its parameters, by name, or a [ParameterError] with what can be
// changed.
func (e *Experiment) With(values map[string]string) (*Experiment, error) {
	changed := *e
	changed.Setup.Policy.Faults = slices.Clone(e.Setup.Policy.Faults)
	changed.Changed = nil
	left := maps.Clone(values)
	for _, p := range e.Parameters { // the lock comes first, and decides what else there is
		text, given := left[p.Name]
		if !given || !p.in(changed.Setup) {
			continue
		}
		delete(left, p.Name)
		if err := p.set(&changed.Setup, text); err != nil {
			return nil, &ParameterError{e.ID, reasonOf(err)}
		}
		if from, to := p.get(e.Setup), p.get(changed.Setup); from != to {
			changed.Changed = append(changed.Changed, finding.Change{Name: p.Name, From: from, To: to})
		}
	}
	if len(left) > 0 {
		name := slices.Sorted(maps.Keys(left))[0]
		return nil, &ParameterError{e.ID, i18n.F("has no parameter --%s%s", name, e.offer(changed.Setup))}
	}
	if err := changed.Setup.Policy.Validate(); err != nil {
		return nil, &ParameterError{e.ID, i18n.F("cannot be changed so: %s", err.Error())}
	}
	if changed.Lock() != e.Lock() {
		changed.Needs = slices.Concat(e.Needs, testbed.ServersOf(changed.Lock()))
	}
	return &changed, nil
}

// reasonOf tells why a value was refused.
func reasonOf(err error) i18n.Text {
	if refused, ok := errors.AsType[*refusedValueError](err); ok {
		return refused.why
	}
	return i18n.Plain(err.Error())
}

// offer lists the parameters that a setup has.
func (e *Experiment) offer(s Setup) i18n.Text {
	var list []string
	for _, p := range e.Parameters {
		if p.in(s) {
			list = append(list, fmt.Sprintf("--%s (%s)", p.Name, p.Bounds))
		}
	}
	if len(list) == 0 {
		return i18n.F(": nothing of it can be changed")
	}
	return i18n.F("; it has %s", strings.Join(list, ", "))
}
