package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// writable makes sure that files can be written into a folder, which it creates if necessary.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".lab-report-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// saveReport writes the report and prints its path.
func saveReport(stderr io.Writer, req runRequest, all lab.Set, results []finding.Result, began time.Time) error {
	if err := writeReport(req, all, results, began); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stderr, "report: %s\n", reportPath(req.report))
	return err
}

// writeReport joins the texts of the experiments with their results.
func writeReport(req runRequest, all lab.Set, results []finding.Result, began time.Time) error {
	page := report.Report{
		Started: began, Took: time.Since(began), Seed: req.options.Seed,
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Command: "go run ./cmd/lab run " + strings.Join(req.args, " "),
	}
	for _, r := range results {
		e, err := asked(req, all, r.ID)
		if err != nil {
			return err
		}
		played := e
		if r.SetupOf != "" {
			if played, err = all.Find(r.SetupOf); err != nil {
				return err
			}
		}
		setup, err := json.Marshal(played.Setup)
		if err != nil {
			return err
		}
		entry := report.Entry{
			Result: r, Hypothesis: e.Hypothesis, Arrangement: arrangement(e, &r), Why: e.Why, Cure: e.Cure,
			Partner: e.Partner, Setup: setup, K6: catalogue.K6Command(*e),
		}
		if !asWritten(&r) {
			entry.Why, entry.Cure = explanation(e, &r), ""
		}
		if len(r.Changed) > 0 { // k6 has the experiment's own numbers
			entry.Result.Title, entry.Hypothesis, entry.K6 = heading(e, &r), "", ""
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

// asked returns an experiment as the request changed it.
func asked(req runRequest, all lab.Set, id string) (*lab.Experiment, error) {
	for _, e := range req.chosen {
		if e.ID == id {
			return e, nil
		}
	}
	return all.Find(id)
}
