package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/server"
	"seckill/internal/lab/testbed"
)

// defaultAddr is where the page is.
const defaultAddr = "127.0.0.1:8090"

func serveHelp(w io.Writer) {
	fmt.Fprint(w, `lab serve is the laboratory as a page: choose an experiment, predict its
outcome, watch it run, see why, change a number and run it again.

usage: lab serve [flags]

  --addr HOST:PORT  where the page is, on the loopback interface (default
                    127.0.0.1:8090; port 0 takes a free one)
  --dir DIR         the folder of the course, as of lab course (default
                    mycourse): what is run here counts
  --instances N, --duration D, --seed N, --embedded, --api PATH
                    as of lab run, for every run

It prints its address. It starts servers of its own when the first run needs
them, and nothing of it stays after Ctrl-C. The session's results end with it:
the page exports them as the report that lab run --report writes.

By hand, a bench on the page, has real processes and a lock in Redis, on Redis
nodes, in MySQL or in ZooKeeper, which do what its buttons say: acquire, write,
release, pause, resume, kill, cut off, reconnect, delete the key, fail over.
What was done is a link, or a file, that replays it.
`)
}

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	addr, dir, options, err := parseServe(args)
	if err != nil {
		return err
	}
	all, err := experiments.All()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	began := time.Now()
	page, err := server.New(ctx, server.Config{
		Experiments: all, Options: options, Open: testbed.Open, Course: dir,
		RefersTo: func(e *lab.Experiment) *lab.Experiment { return refersTo(all, e) },
		Report: func(w io.Writer, ran []server.Ran, language i18n.Language) error {
			r, err := newReport(all, distinct(ran), began, options.Seed, "go run ./cmd/lab serve", language)
			if err != nil {
				return err
			}
			return report.HTML(w, r)
		},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, page.Close()) }()
	fmt.Fprintf(stdout, "lab: serving on http://%s, Ctrl-C ends it\n", listener.Addr())
	return serveUntil(ctx, listener, page, stderr)
}

// serveUntil serves until ctx ends, which ends the streams, too.
func serveUntil(ctx context.Context, listener net.Listener, page http.Handler, stderr io.Writer) error {
	s := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(stderr, "lab: stopping: the run ends, and servers and processes with it")
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(ending) != nil {
		_ = s.Close() // a page that does not let go is cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func parseServe(args []string) (addr, dir string, o testbed.Options, err error) {
	o = testbed.Defaults()
	flags := newFlags("serve")
	flags.StringVar(&addr, "addr", defaultAddr, "")
	flags.StringVar(&dir, "dir", courseFolder, "")
	optionFlags(flags, &o)
	rest, err := parseAnywhere(flags, args)
	if err != nil {
		return "", "", o, err
	}
	if len(rest) > 0 {
		return "", "", o, usagef("unexpected argument %q", rest[0])
	}
	if !onLoopback(addr) {
		return "", "", o, usagef("--addr is %q; it starts processes, so it listens on the loopback interface only, as %s", addr, defaultAddr)
	}
	return addr, dir, o, checkOptions(o)
}

// onLoopback reports whether an address is one of the loopback interface.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// distinct gives a later run of the same experiment an id of its own, which a page needs.
func distinct(ran []server.Ran) []server.Ran {
	times := map[string]int{}
	all := slices.Clone(ran)
	for i := range all {
		id := all[i].Result.ID
		if times[id]++; times[id] > 1 {
			all[i].Result.ID = fmt.Sprintf("%s-%d", id, times[id])
		}
	}
	return all
}
