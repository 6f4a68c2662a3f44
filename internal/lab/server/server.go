package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
	"seckill/internal/web"
)

// Config is what the page needs.
type Config struct {
	Experiments lab.Set
	// RefersTo returns the experiment that the text of another one refers to; nil if there is none.
	RefersTo func(e *lab.Experiment) *lab.Experiment
	// Open opens the environment of the runs, once, when the first one begins.
	Open func(ctx context.Context, o testbed.Options) (*testbed.Environment, error)
	// Options are those of lab run.
	Options testbed.Options
	// Report writes the session's results as lab run --report does. The experiments are those that were run, with the
	// values that they had then.
	Report func(w io.Writer, ran []Ran, language i18n.Language) error
	// Course is the folder of the course, whose progress the command line shares; "": there is no course.
	Course string
}

// Ran is an experiment, as it was run, and what came out.
type Ran struct {
	Experiment *lab.Experiment
	Result     finding.Result
}

// Server serves the page. Close it after its HTTP server has stopped.
type Server struct {
	config      Config
	site        *web.Site
	experiments *body // what GET /api/experiments answers
	session     *session
	streams     *streams
	plays       plays
	handler     http.Handler
	progress    sync.Mutex // of the course
	following   bool       // somebody has looked at it
}

// New returns the server. ctx bounds the runs and the streams.
func New(ctx context.Context, c Config) (*Server, error) {
	if err := c.Experiments.Validate(); err != nil {
		return nil, err
	}
	site, err := web.NewLab(map[string]string{"picture.css": string(report.PictureCSS()), "player.js": report.PlayerJS()})
	if err != nil {
		return nil, err
	}
	experiments, err := newBody(catalogue(c))
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, site: site, experiments: experiments, streams: newStreams(ctx), plays: make(plays, playsAtOnce)}
	s.session = newSession(ctx, c, s.streams)
	s.session.ended = s.credit
	mux := http.NewServeMux()
	mux.Handle("GET /api/experiments", s.experiments)
	for route, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /api/runs":               s.begin,
		"POST /api/cancel":             s.cancel,
		"POST /api/bench":              s.newBench,
		"POST /api/bench/act":          s.act,
		"POST /api/bench/file":         s.readBench,
		"GET /api/bench.json":          s.benchFile,
		"GET /api/bench.svg":           s.benchPicture,
		"GET /api/bench.steps":         s.benchPicture,
		"POST /api/schedule":           s.play,
		"POST /api/schedule/answer":    s.answer,
		"GET /api/schedules/{picture}": s.schedulePicture,
		"GET /api/runs/{n}":            s.result,
		"GET /api/runs/{n}/{picture}":  s.picture,
		"GET /api/live.svg":            s.livePicture,
		"GET /api/live.steps":          s.livePicture,
		"GET /api/report":              s.report,
		"GET /api/course":              s.course,
		"POST /api/course/hint":        s.hint,
		"GET /api/events":              s.streams.serve,
		"GET /{$}":                     s.page,
		"GET /static/{version}/{name}": s.page,
		"GET /api/":                    func(http.ResponseWriter, *http.Request) error { return errNotFound },
	} {
		mux.Handle(route, adapt(h))
	}
	s.handler = sameSite(mux)
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends the run that goes on, and stops the servers and processes.
func (s *Server) Close() error { return s.session.close() }

func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	s.site.ServeHTTP(w, r)
	return nil
}

// begin is POST /api/runs.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Experiment string            `json:"experiment"`
		Values     map[string]string `json:"values"`
		Predict    string            `json:"predict"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	e, err := s.config.Experiments.Find(asked.Experiment)
	if err != nil {
		return because(errInvalid, err)
	}
	if e, err = e.With(asked.Values); err != nil {
		return because(errInvalid, err)
	}
	var predicted *finding.Prediction
	if asked.Predict != "" {
		p, err := finding.ParsePrediction(asked.Predict)
		if err != nil {
			return because(errInvalid, err)
		}
		predicted = &p
	}
	n, err := s.session.begin(e, predicted)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, map[string]int{"run": n})
}

// cancel is POST /api/cancel.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	if err := readJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	if !s.session.cancel() {
		return errIdle
	}
	return writeJSON(w, http.StatusAccepted, struct{}{})
}

// result is GET /api/runs/{n}.
func (s *Server) result(w http.ResponseWriter, r *http.Request) error {
	one, err := s.session.find(r.PathValue("n"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newOutcome(one))
}

// report is GET /api/report; ?lang=zh: in Chinese.
func (s *Server) report(w http.ResponseWriter, r *http.Request) error {
	language, err := languageOf(r)
	if err != nil {
		return err
	}
	ran := s.session.ran()
	if len(ran) == 0 {
		return errNotFound
	}
	// The report is one file, which has its style within it.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="lab-report.html"`)
	return s.config.Report(w, ran, language)
}

// The errors of a request.
var (
	errInvalid  = errors.New("the request makes no sense")
	errNotFound = errors.New("there is nothing here")
	errBusy     = errors.New("another run goes on")
	errIdle     = errors.New("nothing runs")
	errStopping = errors.New("the laboratory stops")
	errStreams  = errors.New("too many pages are open")
	errMissing  = errors.New("a server is missing here")
)
