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
	"slices"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/server"
)

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
func saveReport(stderr io.Writer, req runRequest, results []finding.Result, began time.Time) error {
	var ran []server.Ran
	for _, r := range results {
		ran = append(ran, server.Ran{Experiment: req.experiment(r.ID), Result: r})
	}
	page, err := newReport(req.all, ran, began, req.options.Seed, "go run ./cmd/lab run "+strings.Join(req.args, " "), req.lang)
	if err != nil {
		return err
	}
	if err := report.WriteDir(req.report, page); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stderr, i18n.F("report: %s", filepath.Join(req.report, report.File)).In(req.lang))
	return err
}

// newReport joins the texts of the experiments with their results.
func newReport(all lab.Set, ran []server.Ran, began time.Time, seed int64, command string, l i18n.Language) (report.Report, error) {
	page := report.Report{
		Started: began, Took: time.Since(began), Seed: seed,
		Machine: i18n.F("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()).In(l),
		Command: command, Language: l,
	}
	for _, one := range inOrder(all, ran) {
		e, r, played := one.Experiment, one.Result, one.Experiment
		if r.SetupOf != "" {
			var err error
			if played, err = all.Find(r.SetupOf); err != nil {
				return page, err
			}
		}
		setup, err := json.Marshal(played.Setup)
		if err != nil {
			return page, err
		}
		entry := report.Entry{
			Result: r, Hypothesis: played.Says(lab.Hypothesis).In(l), Arrangement: arrangement(e, played, &r).In(l),
			Why: e.Says(lab.Why).In(l), Cure: e.Says(lab.Cure).In(l), Partner: e.Partner, Setup: setup, K6: e.K6Command(),
		}
		entry.Result.Title, entry.Result.Group = e.Says(lab.Title).In(l), e.Says(lab.Group).In(l)
		if !asWritten(&r) {
			entry.Result.Title, entry.Why, entry.Cure = i18n.F("%s: %s", e.ID, heading(e, &r)).In(l), "", ""
		}
		entry.Result.Skipped = r.SkippedText().In(l)
		if len(r.Changed) > 0 { // k6 has the experiment's own numbers
			entry.Hypothesis, entry.K6 = "", ""
		}
		entry.Verdict = verdict(&r).In(l)
		for _, s := range e.Sources {
			entry.Sources = append(entry.Sources, report.Source{Document: s.Document, Section: s.Section})
		}
		for _, r := range e.Reports {
			entry.Reports = append(entry.Reports, report.Link{Text: r.String(), URL: r.URL()})
		}
		page.Entries = append(page.Entries, entry)
		page.Engine.Redis = cmp.Or(page.Engine.Redis, r.Engine.Redis)
		page.Engine.Database = cmp.Or(page.Engine.Database, r.Engine.Database)
		page.Engine.ZooKeeper = cmp.Or(page.Engine.ZooKeeper, r.Engine.ZooKeeper)
	}
	return page, nil
}

// inOrder sorts runs as the catalogue has their experiments.
func inOrder(all lab.Set, ran []server.Ran) []server.Ran {
	at := map[string]int{}
	for i := range all {
		at[all[i].ID] = i
	}
	return slices.SortedStableFunc(slices.Values(ran), func(a, b server.Ran) int {
		return cmp.Compare(at[a.Experiment.ID], at[b.Experiment.ID])
	})
}
