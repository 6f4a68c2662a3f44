package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
)

const (
	// lookEvery is the time between two looks at a run, and lookShare makes a look that takes long a rare one: it takes
	// at most one part in so many of the time.
	lookEvery = 250 * time.Millisecond
	lookShare = 10
	// liveActors is how many actors the picture of a run has while it goes on.
	liveActors = 7
	// maxUntil is the longest axis that may be asked for, in ms.
	maxUntil = 600_000
)

// follow draws a run again and again while it goes on and somebody watches.
func (s *session) follow(ctx context.Context, one *run) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		if s.streams.watched() {
			s.look(one)
		}
		timer.Reset(max(lookEvery, lookShare*time.Since(began)))
	}
}

// look draws a run as it is now.
func (s *session) look(one *run) {
	s.mu.Lock()
	bed, still, actors := one.testbed, one.still(), one.actors
	s.mu.Unlock()
	if bed == nil || still {
		return
	}
	began := time.Now()
	evidence := bed.SoFar()
	evidence.LockStore = testbed.LockStore(one.lock())
	if one.bench != nil {
		evidence.Database = one.bench.Setup().Database()
	}
	j := judge.Look(evidence)
	w, actors, ok := witness.Live(j, liveActors, actors)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.live, one.actors, one.found = &w, actors, map[finding.Kind]int{}
	one.picture++
	one.lookedAt = began
	for kind, n := range j.Anomalies {
		if n > 0 {
			one.found[kind] = n
		}
	}
	s.streams.publish(s.state())
}

// lock is the mechanism.
func (one *run) lock() string {
	if one.bench != nil {
		return one.bench.Setup().Lock
	}
	return one.experiment.Lock()
}

// livePicture is GET /api/live.svg, and /api/live.steps. A page may ask when the run has just ended: that is no error.
func (s *Server) livePicture(w http.ResponseWriter, r *http.Request) error {
	return s.writeLive(w, r, func() *run { return s.session.now })
}

// writeLive answers with the latest picture of a run, or with nothing where there is none.
func (s *Server) writeLive(w http.ResponseWriter, r *http.Request, of func() *run) error {
	if _, err := readerOf(r); err != nil {
		return err
	}
	s.session.mu.Lock()
	var live *finding.Witness
	if one := of(); one != nil {
		live = one.live
	}
	s.session.mu.Unlock()
	if live == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writePicture(w, r, *live, "live")
}

// reader is for whom a picture is drawn, and how.
type reader struct {
	language i18n.Language
	size     report.Size
	scale    report.Scale
}

// readerOf is for whom a picture is asked for: ?lang=zh, ?size=narrow, ?scale=steps; English, wide and true time
// without them.
func readerOf(r *http.Request) (reader, error) {
	language, err := languageOf(r)
	size := report.Size(cmp.Or(r.URL.Query().Get("size"), string(report.Wide)))
	scale := report.Scale(cmp.Or(r.URL.Query().Get("scale"), string(report.ByTime)))
	switch {
	case err != nil:
	case size != report.Wide && size != report.Narrow:
		err = fmt.Errorf("%w: size is %q; it can be wide or narrow", errInvalid, size)
	case scale != report.ByTime && scale != report.BySteps:
		err = fmt.Errorf("%w: scale is %q; it can be time or steps", errInvalid, scale)
	}
	return reader{language, size, scale}, err
}

// writePicture answers with a picture, or, for an address that ends with .steps, with what plays it.
func writePicture(w http.ResponseWriter, r *http.Request, shown finding.Witness, id string) error {
	of, err := readerOf(r)
	if err != nil {
		return err
	}
	if strings.HasSuffix(r.URL.Path, stepsSuffix) {
		return writeJSON(w, http.StatusOK, report.NewPlayer(shown, of.language))
	}
	drawn, err := report.SVG(shown, id, of.language, of.size, of.scale)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write([]byte(drawn)) // the client may be gone
	return nil
}

// stepsSuffix is that of the address of a picture's steps.
const stepsSuffix = ".steps"

// nameOf is what the address of a picture, or of its steps, names.
func nameOf(address string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(address, stepsSuffix); !ok {
		name, ok = strings.CutSuffix(address, ".svg")
	}
	return name, ok
}

// languageOf is the language that a picture is asked for in: ?lang=zh, English without it.
func languageOf(r *http.Request) (i18n.Language, error) {
	language := i18n.Language(cmp.Or(r.URL.Query().Get("lang"), string(i18n.English)))
	if !slices.Contains(i18n.Languages(), language) {
		return "", fmt.Errorf("%w: lang is %q; it can be %q", errInvalid, language, i18n.Languages())
	}
	return language, nil
}

// picture is GET /api/runs/{n}/{i}.svg, and /api/runs/{n}/{i}.steps.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session.find(r.PathValue("n"))
	if err != nil {
		return err
	}
	name, ok := nameOf(r.PathValue("picture"))
	i, err := strconv.Atoi(name)
	all := witnesses(&one.result)
	if !ok || err != nil || i < 0 || i >= len(all) {
		return errNotFound
	}
	shown := all[i]
	from, err := moment(r, "from")
	if err != nil {
		return err
	}
	until, err := moment(r, "until")
	if err != nil {
		return err
	}
	if shown.From = from; until != nil {
		shown.Until = *until
	}
	return writePicture(w, r, shown, fmt.Sprintf("run%d-%d", one.n, i))
}

// moment reads an end of the axis from the address, in ms; nil if it is not given.
func moment(r *http.Request, name string) (*float64, error) {
	given := r.URL.Query().Get(name)
	if given == "" {
		return nil, nil
	}
	ms, err := strconv.ParseFloat(given, 64)
	if err != nil || !(ms >= 0 && ms <= maxUntil) {
		return nil, fmt.Errorf("%w: %s is %q; 0 to %d ms", errInvalid, name, given, maxUntil)
	}
	return &ms, nil
}

// witnesses are the pictures of a result, the deciding one first.
func witnesses(r *finding.Result) []finding.Witness {
	var all []finding.Witness
	if r.Witness != nil {
		all = append(all, *r.Witness)
	}
	return append(all, r.More...)
}
