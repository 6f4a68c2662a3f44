package main

import (
	"context"
	"errors"
	"io"

	"seckill/internal/lab"
	"seckill/internal/lab/testbed"
)

// session is a laboratory that is open: its servers and processes, and a display of its
// progress.
type session struct {
	*lab.Lab
	env      *testbed.Environment
	progress *progress
	calm     func() bool // ends the watch for Ctrl-C
}

// open opens a laboratory for total experiments of a set, and shows its progress on stderr.
func open(ctx context.Context, all lab.Set, options testbed.Options, total int, stderr io.Writer) (*session, error) {
	p := &progress{w: stderr, total: total, interactive: interactive(stderr)}
	options.Progress, options.Notice = p.note, p.say
	s := &session{progress: p}
	s.calm = context.AfterFunc(ctx, func() { p.say("stopping: experiments end, and servers and processes with them") })
	var err error
	if s.env, err = testbed.Open(ctx, options); err != nil {
		s.calm()
		return nil, err
	}
	if s.Lab, err = lab.New(s.env, all); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close stops the servers and processes.
func (s *session) close() error {
	s.calm()
	s.progress.note("stopping the servers")
	err := s.env.Close()
	s.progress.clear()
	return err
}
