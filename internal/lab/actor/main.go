package actor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// MainIfChild makes this process an actor, and does not return, if it was executed to
// be one by [Start]. A program whose experiments or tests have actors calls it first
// thing in its main or TestMain.
func MainIfChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := Main(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Main is an actor's whole life: it reads its [Config] and then requests, and
// answers, until the input or ctx ends. Nothing that is held then is released. A
// read of stdin that is under way when ctx ends is left behind.
func Main(ctx context.Context, stdin io.Reader, stdout, logs io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errClosing)
	messages := lines(ctx, stdin)
	out := &replies{w: stdout, broken: cancel}

	first, ok := next(ctx, messages)
	if !ok {
		return errors.New("the input ended before the configuration")
	}
	c, err := open(ctx, first, logs)
	if err != nil {
		return errors.Join(err, out.send(reply{Error: report(err)}))
	}
	s := &server{child: c, out: out, requests: map[int64]*call{}, origin: map[int64]Lease{}}
	if err := out.send(reply{}); err != nil {
		return errors.Join(err, c.close())
	}
	for message, ok := next(ctx, messages); ok; message, ok = next(ctx, messages) {
		s.take(ctx, message)
	}
	cancel(errClosing)
	s.calls.Wait()
	err = c.close()
	if cause := context.Cause(ctx); !errors.Is(cause, errClosing) {
		err = errors.Join(cause, err)
	}
	return err
}

// next is the next line, or false when there is none or ctx has ended.
func next(ctx context.Context, messages <-chan []byte) ([]byte, bool) {
	select {
	case message, ok := <-messages:
		return message, ok
	case <-ctx.Done():
		return nil, false
	}
}

// errClosing is the cause with which everything ends at the end of the input.
var errClosing = errors.New("actor: the input ended")

// lines reads line by line until the input ends, or is read on after ctx has ended.
func lines(ctx context.Context, r io.Reader) <-chan []byte {
	out := make(chan []byte)
	go func() {
		defer close(out)
		for from := bufio.NewReader(r); ; {
			message, err := from.ReadBytes('\n')
			if len(bytes.TrimSpace(message)) > 0 {
				select {
				case out <- message:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// replies writes one line at a time. One that cannot be written ends the process's
// work: there is nobody to work for.
type replies struct {
	mu     sync.Mutex
	w      io.Writer
	broken context.CancelCauseFunc
}

func (r *replies) send(message reply) error {
	data, err := line(message)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.w.Write(data); err != nil {
		err = fmt.Errorf("write a reply: %w", err)
		r.broken(err)
		return err
	}
	return nil
}

// server takes requests, and runs each in a goroutine of its own.
type server struct {
	*child
	out   *replies
	calls sync.WaitGroup

	mu       sync.Mutex
	requests map[int64]*call
	origin   map[int64]Lease // by the request that obtained it
}

// call is a request at work.
type call struct {
	cancel    context.CancelFunc
	takenBack bool
}

// take begins what a line asks for.
func (s *server) take(ctx context.Context, message []byte) {
	var r request
	if err := strictly(message, &r); err != nil {
		s.answer(reply{Error: report(invalid("the request is not understood: %v", err))})
		return
	}
	if r.Do == doCancel {
		s.takeBack(r.ID)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	begun := &call{cancel: cancel}
	s.mu.Lock()
	_, taken := s.requests[r.ID]
	if !taken && r.ID > 0 {
		s.requests[r.ID] = begun
	}
	s.mu.Unlock()
	if taken || r.ID <= 0 {
		cancel()
		s.answer(reply{ID: r.ID, Error: report(invalid("request %d is at work already, or that is no number for one", r.ID))})
		return
	}
	s.calls.Go(func() {
		defer cancel()
		result, err := s.serve(ctx, r)
		s.finish(r.ID, begun, result, err)
	})
}

// serve does what is asked for. A panic ends the request and nothing else, as in a
// web server.
func (s *server) serve(ctx context.Context, r request) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a request panicked", slog.String("do", r.Do), slog.Any("panic", p))
			err = fmt.Errorf("%w: %v", ErrPanicked, p)
		}
	}()
	handle, ok := s.handlers()[r.Do]
	if !ok {
		return nil, invalid("there is nothing called %q to do", r.Do)
	}
	return handle(ctx, r.With)
}

// finish answers. What a request obtained that was taken back meanwhile is given
// back: nobody will ever ask for it.
func (s *server) finish(id int64, c *call, result any, err error) {
	s.mu.Lock()
	takenBack := c.takenBack
	delete(s.requests, id)
	if g, ok := result.(Grant); ok && !takenBack && g.Lease != "" {
		s.origin[id] = g.Lease
	}
	s.mu.Unlock()
	if takenBack {
		s.drop(result)
		return
	}
	message := reply{ID: id, Error: report(err)}
	if result != nil {
		data, failed := json.Marshal(result)
		if failed != nil {
			message.Error = report(errors.Join(err, failed))
		}
		message.Result = data
	}
	s.answer(message)
}

// takeBack ends a request; one that was answered already, to somebody who does not
// listen any more, gives back the lease that it obtained.
func (s *server) takeBack(id int64) {
	s.mu.Lock()
	c, working := s.requests[id]
	if working {
		c.takenBack = true
	}
	lease, granted := s.origin[id]
	s.mu.Unlock()
	switch {
	case working:
		c.cancel()
	case granted:
		s.calls.Go(func() { s.drop(Grant{Lease: lease}) })
	}
}

func (s *server) answer(message reply) {
	if err := s.out.send(message); err != nil {
		s.log.Warn("a reply is lost", slog.Any("error", err))
	}
}

// strictly decodes one JSON value and nothing beside it, no unknown field included.
func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
