package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// quiz asks for a prediction before each experiment.
type quiz struct {
	all   lab.Set
	swap  bool
	given *finding.Prediction // for every experiment; nil: ask
	in    *bufio.Reader       // of answers
	out   io.Writer           // for questions
	lang  i18n.Language
}

// newQuiz returns the quiz of a request. Only a person at a terminal can be asked.
func newQuiz(req runRequest, all lab.Set, in io.Reader, out io.Writer) (*quiz, error) {
	if req.predict == nil && !interactive(in) {
		return nil, usagef("--quiz asks at a terminal, and standard input is none; use --predict holds, --predict breaks or --predict breaks:KIND")
	}
	return &quiz{all: all, swap: req.swap, given: req.predict, in: bufio.NewReader(in), out: out, lang: req.lang}, nil
}

// play asks, plays and judges the predictions, one experiment after the other. It returns the results so far if it is
// stopped.
func (q *quiz) play(ctx context.Context, s *session, chosen []*lab.Experiment, run runner, tell func(finding.Result)) (results []finding.Result, err error) {
	for i, e := range chosen {
		if err := q.put(fmt.Sprintf("[%d/%d] ", i+1, len(chosen)), e); err != nil {
			return results, err
		}
		p, err := q.predict(ctx)
		if err != nil {
			return results, err
		}
		one, err := s.RunAll(ctx, []*lab.Experiment{e}, run, s.progress.done)
		if err != nil {
			return results, err
		}
		p.Judge(&one[0])
		tell(one[0])
		results = append(results, one[0])
	}
	return results, nil
}

// put puts the question.
func (q *quiz) put(number string, e *lab.Experiment) error {
	columns := min(width(q.out), defaultWidth)
	text := number + describe(q.all, e, columns, q.lang)
	if len(e.Changed) > 0 {
		r := finding.Result{Changed: e.Changed}
		text += "\n" + wrap(i18n.F("That is with its own numbers. This run is with %s.", changes(&r)).In(q.lang), columns) + "\n"
	}
	if q.swap {
		text += "\n" + wrap(i18n.F("But this run is with the setup of %s.", e.Partner).In(q.lang), columns) + "\n"
	}
	_, err := fmt.Fprintln(q.out, text)
	return err
}

// predict asks until it has a prediction.
func (q *quiz) predict(ctx context.Context) (finding.Prediction, error) {
	if q.given != nil {
		return *q.given, nil
	}
	for {
		fmt.Fprint(q.out, i18n.F("holds, breaks, or breaks:KIND?").In(q.lang)+" ")
		answer, err := q.read(ctx)
		if err != nil {
			fmt.Fprintln(q.out)
			return finding.Prediction{}, err
		}
		p, err := finding.ParsePrediction(answer)
		if err == nil {
			fmt.Fprintln(q.out)
			return p, nil
		}
		no := i18n.F("%q is no prediction; %s.", strings.TrimSpace(answer), finding.Choices())
		fmt.Fprintln(q.out, wrap(no.In(q.lang), min(width(q.out), defaultWidth)))
	}
}

// errNoAnswer means that the input ended.
var errNoAnswer = errors.New("no answer")

// read reads a line, or returns when ctx ends. Nothing can interrupt a read from a terminal: after Ctrl-C it goes on
// until the program ends, which is at once.
func (q *quiz) read(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := q.in.ReadString('\n')
		got <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case l := <-got:
		if errors.Is(l.err, io.EOF) && strings.TrimSpace(l.text) == "" {
			return "", errNoAnswer
		} else if l.err != nil && !errors.Is(l.err, io.EOF) {
			return "", l.err
		}
		return l.text, nil
	}
}

// score says whether a prediction came true.
func score(r *finding.Result) i18n.Text {
	predicted := i18n.Plain(r.Prediction)
	if p, err := finding.ParsePrediction(r.Prediction); err == nil {
		predicted = p.Text()
	}
	switch {
	case r.PredictionRight == nil:
		return i18n.F("You predicted “%s”. There is no verdict.", predicted)
	case *r.PredictionRight:
		return i18n.F("You predicted “%s”. Right: it %s.", predicted, outcome(r))
	case strings.HasPrefix(r.Prediction, string(r.Observed)):
		return i18n.F("You predicted “%s”. Wrong: it %s, but in another way.", predicted, outcome(r))
	}
	return i18n.F("You predicted “%s”. Wrong: it %s.", predicted, outcome(r))
}

// outcome is the verdict, with what was counted if it breaks.
func outcome(r *finding.Result) i18n.Text {
	if r.Observed == finding.Breaks {
		return i18n.F("%s (%s)", r.Observed.Text(), anomalies(r))
	}
	return r.Observed.Text()
}

// tally counts the predictions that came true.
func tally(results []finding.Result) i18n.Text {
	right, judged := 0, 0
	for _, r := range results {
		if r.PredictionRight == nil {
			continue
		}
		judged++
		if *r.PredictionRight {
			right++
		}
	}
	return i18n.F("Your predictions: %d of %d right", right, judged)
}
