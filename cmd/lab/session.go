package main

import (
	"context"
	"errors"
	"io"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
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
func open(
	ctx context.Context, all lab.Set, options testbed.Options, total int, l i18n.Language, stderr io.Writer,
) (*session, error) {
	p := &progress{w: stderr, total: total, interactive: interactive(stderr), lang: l}
	options.Progress = func(what i18n.Text) { p.note(what.In(l)) }
	options.Notice = func(what i18n.Text) { p.say(what.In(l)) }
	s := &session{progress: p}
	s.calm = context.AfterFunc(ctx, func() { p.say(i18n.F("stopping: experiments end, and servers and processes with them").In(l)) })
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
	s.progress.note(i18n.F("stopping the servers").In(s.progress.lang))
	err := s.env.Close()
	s.progress.clear()
	return err
}
