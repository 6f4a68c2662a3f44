package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/catalogue"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/report"
)

// reportPath is the page of a report.
func reportPath(dir string) string { return filepath.Join(dir, report.File) }

// writeReport puts what the experiments say beside what they came to.
func writeReport(req runRequest, all lab.Set, results []finding.Result, began time.Time) error {
	page := report.Report{
		Started: began, Took: time.Since(began), Seed: req.options.Seed,
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Command: "go run ./cmd/lab run " + strings.Join(req.args, " "),
	}
	for _, r := range results {
		e, err := all.Find(r.ID)
		if err != nil {
			return err
		}
		setup, err := json.Marshal(e.Setup)
		if err != nil {
			return err
		}
		entry := report.Entry{
			Result: r, Hypothesis: e.Hypothesis, Arrangement: e.Arrangement, Why: e.Why, Cure: e.Cure,
			Partner: e.Partner, Setup: setup, K6: catalogue.K6Command(*e),
		}
		for _, s := range e.Sources {
			entry.Sources = append(entry.Sources, report.Source{Document: s.Document, Section: s.Section})
		}
		page.Entries = append(page.Entries, entry)
		page.Engine.Redis = cmp.Or(page.Engine.Redis, r.Engine.Redis)
		page.Engine.Database = cmp.Or(page.Engine.Database, r.Engine.Database)
		page.Engine.ZooKeeper = cmp.Or(page.Engine.ZooKeeper, r.Engine.ZooKeeper)
	}
	return report.WriteDir(req.report, page)
}
