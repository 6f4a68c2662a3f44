// Command report prints the results of the conformance suite: a Markdown table of behaviours and mechanisms, and the
// counts of each mechanism.
//
//	export LOCKTEST_REPORT=/tmp/report.jsonl
//	export SECKILL_TEST_SERVERS=1 SECKILL_TEST_SOAK=1
//	go test -count=1 -p 1 -timeout 60m -run Conformance ./internal/lock/none ./internal/lock/local ./internal/lock/redis ./internal/lock/mysql/... ./internal/lock/zookeeper/...
//	go run ./internal/lock/locktest/report /tmp/report.jsonl
//
// If a mechanism was run more than once, the last run to which a behaviour applies counts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"seckill/internal/lock/locktest"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: report FILE, the file that a test run with %s wrote", locktest.ReportFile)
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	m, err := read(file)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, m.markdown())
	return err
}

// matrix is the result of all runs.
type matrix struct {
	mechanisms []string
	behaviours []locktest.Behaviour
	verdicts   map[string]map[locktest.Behaviour]locktest.Verdict
}

func read(in io.Reader) (*matrix, error) {
	m := &matrix{verdicts: make(map[string]map[locktest.Behaviour]locktest.Verdict)}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a line has the result of a whole run
	for lines.Scan() {
		var r locktest.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(m.mechanisms)+1, err)
		}
		m.add(r)
	}
	slices.Sort(m.mechanisms)
	// The order of the suite, then that of the suite for read-write locks.
	known := slices.Concat(locktest.Behaviours(), locktest.SharedBehaviours())
	slices.SortStableFunc(m.behaviours, func(a, b locktest.Behaviour) int {
		return slices.Index(known, a) - slices.Index(known, b)
	})
	return m, lines.Err()
}

func (m *matrix) add(r locktest.Report) {
	found := m.verdicts[r.Mechanism]
	if found == nil {
		found = make(map[locktest.Behaviour]locktest.Verdict)
		m.verdicts[r.Mechanism] = found
		m.mechanisms = append(m.mechanisms, r.Mechanism)
	}
	for _, b := range r.Order {
		if _, known := found[b]; !known || r.Claims[b].Claim != "n.a." {
			found[b] = r.Claims[b]
		}
		if !slices.Contains(m.behaviours, b) {
			m.behaviours = append(m.behaviours, b)
		}
	}
}

func (m *matrix) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "| behaviour | %s |\n|---|%s\n", strings.Join(m.mechanisms, " | "),
		strings.Repeat("---|", len(m.mechanisms)))
	for _, b := range m.behaviours {
		fmt.Fprintf(&s, "| %s |", b)
		for _, mechanism := range m.mechanisms {
			fmt.Fprintf(&s, " %s |", cell(m.verdicts[mechanism], b))
		}
		s.WriteString("\n")
	}
	s.WriteString("\n| mechanism | behaviours | hold | break (proven) | not applicable | disproven |\n|---|---|---|---|---|---|\n")
	for _, mechanism := range m.mechanisms {
		counts := make(map[string]int)
		for b := range m.verdicts[mechanism] {
			counts[cell(m.verdicts[mechanism], b)]++
		}
		fmt.Fprintf(&s, "| %s | %d | %d | %d | %d | %d |\n", mechanism, len(m.verdicts[mechanism]),
			counts["holds"], counts["**breaks**"], counts["n.a."], counts["DISPROVEN"])
	}
	return s.String()
}

func cell(verdicts map[locktest.Behaviour]locktest.Verdict, b locktest.Behaviour) string {
	verdict, ok := verdicts[b]
	switch {
	case !ok:
		return ""
	case verdict.Disproven:
		return "DISPROVEN"
	case verdict.Claim == "breaks":
		return "**breaks**"
	}
	return verdict.Claim
}
