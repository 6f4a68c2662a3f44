package loadtest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// row is a line of the table. A row without want has no target: it is shown for its consequences, as in docs/scale.md.
type row struct {
	what, want, got, note string
	costs                 string // the processor time of each request, by process
	evidence
	noise noise
}

// evidence is what the verdict on a target considers, beside the noise.
type evidence struct {
	// met says whether the target is met by what was measured.
	met bool
	// byCPU says the same of the processor time, which a neighbour on the machine hardly changes.
	byCPU answer
	// Noise changes nothing in what was measured.
	steady bool
	// Noise only makes worse what was measured.
	upperBound bool
}

type answer int

const (
	unknown answer = iota
	no
	yes
)

func answerOf(is bool) answer {
	if is {
		return yes
	}
	return no
}

func (a answer) String() string { return [...]string{"unknown", "**no**", "yes"}[a] }

// verdict says whether a target is met. What the rate and the processor time both say holds on any machine. Where they
// differ, or only the rate is known, the machine must have been quiet for the rate to count.
func (e evidence) verdict(quiet bool) string {
	met := answerOf(e.met)
	switch {
	case e.steady, e.byCPU == met, quiet && e.byCPU == unknown, e.met && e.upperBound:
		return met.String()
	case quiet:
		return fmt.Sprintf("%s; by CPU %s", met, e.byCPU)
	case e.byCPU != unknown:
		return fmt.Sprintf("unclear: busy machine; by CPU %s", e.byCPU)
	default:
		return "unclear: busy machine"
	}
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

func (t *table) print(b *testing.B) {
	b.Helper()
	if len(t.rows) == 0 {
		b.Fatal("nothing was measured: no row has that name")
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n| what | target | measured | met | CPU of each, µs | bare gin before and after; others | how |\n")
	fmt.Fprintf(&text, "|---|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		verdict := ""
		if r.want != "" {
			verdict = r.verdict(r.noise.quiet())
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s | %s |\n",
			r.what, cmp.Or(r.want, "none"), r.got, verdict, r.costs, r.noise, r.note)
	}
	fmt.Fprintln(os.Stdout, text.String())
}

// turns are the rounds in which a subject and another one were measured in turn.
type turns struct {
	ratios
	spent, spentTheirs cpu // of one request, in µs
}

// inTurn measures the answers per second of two subjects, and what they cost.
func (s *benchService) inTurn(b *testing.B, mine, theirs func() load) (t turns) {
	b.Helper()
	var n, nTheirs float64
	mine() // both have run before the first round counts
	theirs()
	for range rounds() {
		a, spent := s.timed(b, mine)
		z, spentTheirs := s.timed(b, theirs)
		t.add(a.perSecond, z.perSecond)
		t.spent, n = t.spent.plus(spent), n+float64(a.requests)
		t.spentTheirs, nTheirs = t.spentTheirs.plus(spentTheirs), nTheirs+float64(z.requests)
	}
	t.spent, t.spentTheirs = t.spent.each(n), t.spentTheirs.each(nTheirs)
	return t
}

func (s *benchService) timed(b *testing.B, measure func() load) (load, cpu) {
	b.Helper()
	before := s.busy(b)
	done := measure()
	spent := s.busy(b).minus(before)
	spent.wrk = done.cpu
	return done, spent
}

// cost is the processor time of one of theirs over that of one of mine: the ratio of the rates, if a machine that does
// nothing else is the limit of both.
func (t turns) cost() float64 { return t.spentTheirs.sum() / t.spent.sum() }

// target is the least median that a ratio should have, and the least of its rounds.
type target struct{ median, least float64 }

// row compares the rates and the costs with a target. of names what the ratio is of.
func (t turns) row(what, of string, want target, note string) row {
	return row{
		what: what, want: want.of(of), note: note, evidence: want.judge(t.each, t.cost()),
		got: fmt.Sprintf("%.2f (%.2f to %.2f): %.0f/s, %.0f/s; by CPU %.2f", median(t.each), slices.Min(t.each), slices.Max(t.each),
			median(t.mine), median(t.theirs), t.cost()),
		costs: fmt.Sprintf("%s; beside it %s", t.spent, t.spentTheirs),
	}
}

func (want target) of(subject string) string {
	switch {
	case want == target{}:
		return ""
	case want.least > 0:
		return fmt.Sprintf("≥ %.2f of %s, never below %.2f", want.median, subject, want.least)
	}
	return fmt.Sprintf("≥ %.2f of %s", want.median, subject)
}

func (want target) judge(each []float64, byCPU float64) evidence {
	return evidence{met: median(each) >= want.median && slices.Min(each) >= want.least, byCPU: answerOf(byCPU >= want.median)}
}

// Noise does not change what the processor time says; a ratio of rates counts where the machine was quiet.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		what        string
		evidence    evidence
		quiet, busy string
	}{
		{"both meet it", evidence{met: true, byCPU: yes}, "yes", "yes"},
		{"neither meets it", evidence{byCPU: no}, "**no**", "**no**"},
		{"the rate only", evidence{met: true, byCPU: no}, "yes; by CPU **no**", "unclear: busy machine; by CPU **no**"},
		{"the processor time only", evidence{byCPU: yes}, "**no**; by CPU yes", "unclear: busy machine; by CPU yes"},
		{"a latency that meets it", evidence{met: true, upperBound: true}, "yes", "yes"},
		{"a latency that does not", evidence{upperBound: true}, "**no**", "unclear: busy machine"},
		{"a rate alone", evidence{met: true}, "yes", "unclear: busy machine"},
		{"memory", evidence{steady: true}, "**no**", "**no**"},
	} {
		if quiet, busy := tt.evidence.verdict(true), tt.evidence.verdict(false); quiet != tt.quiet || busy != tt.busy {
			t.Errorf("%s: %q on a quiet machine and %q on a busy one, want %q and %q", tt.what, quiet, busy, tt.quiet, tt.busy)
		}
	}
}

// One round below the least fails a target, however high the median is.
func TestTarget(t *testing.T) {
	want := target{median: 0.65, least: 0.60}
	for _, tt := range []struct {
		each  []float64
		byCPU float64
		want  evidence
	}{
		{[]float64{0.60, 0.65, 0.70}, 0.66, evidence{met: true, byCPU: yes}},
		{[]float64{0.59, 0.66, 0.70}, 0.66, evidence{byCPU: yes}},
		{[]float64{0.61, 0.64, 0.70}, 0.64, evidence{byCPU: no}},
	} {
		if got := want.judge(tt.each, tt.byCPU); got != tt.want {
			t.Errorf("%v, by CPU %.2f: %+v, want %+v", tt.each, tt.byCPU, got, tt.want)
		}
	}
}
