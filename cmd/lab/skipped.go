package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// printSkipped names the experiments that were skipped, by what each lacks, and says how to get
// all servers at once.
func printSkipped(w io.Writer, results []finding.Result, req runRequest) {
	var reasons []string
	of, why := map[string][]string{}, map[string]i18n.Text{}
	for _, r := range results {
		if r.Skipped == "" {
			continue
		}
		if of[r.Skipped] == nil {
			reasons = append(reasons, r.Skipped)
		}
		of[r.Skipped], why[r.Skipped] = append(of[r.Skipped], r.ID), r.SkippedText()
	}
	if len(reasons) == 0 {
		return
	}
	const indent = 4
	for _, reason := range slices.Sorted(slices.Values(reasons)) {
		fmt.Fprintf(w, "  %s\n", hang(i18n.F("skipped: %s", why[reason]).In(req.lang), indent, width(w)))
		fmt.Fprintf(w, "%*s%s\n", indent, "", hang(strings.Join(of[reason], ", "), indent, width(w)))
	}
	if !req.options.Embedded {
		fmt.Fprintf(w, "\n%s\n%s", i18n.F("All servers at once:").In(req.lang), fmt.Sprintf(allServers, strings.Join(req.args, " ")))
	}
}

// allServers are lines to be copied. Nothing of a server that is installed has to run: the
// laboratory starts its own. In a container Debian's packages bring all of them.
const allServers = `  Debian, Ubuntu  make infra
  macOS           brew install redis mariadb zookeeper
  container       docker run --rm -v "$PWD:/src" -w /src golang:1.26 sh -c "apt-get update && apt-get install -y \
                    redis-server mariadb-server zookeeper default-jre-headless faketime && go run ./cmd/lab run %s"
`
