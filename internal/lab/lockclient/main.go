package lockclient

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
	"time"
)

// Config says who a client is, and which servers it has. Without its server a mechanism is
// unknown to the client.
type Config struct {
	// Name of the process in the event log, such as "holder".
	Name string
	// Prefix goes before every key, so that experiments can share servers.
	Prefix string

	// RedisAddrs is a single node, or a cluster if there are several, or with RedisMaster the
	// sentinels that know the primary of that name.
	RedisAddrs  []string
	RedisMaster string
	// RedisTimeout bounds one attempt of a command. Default 2 s.
	RedisTimeout time.Duration
	// NodeAddrs are independent Redis servers, for multi and red.
	NodeAddrs []string
	// NodeTimeout bounds a round trip to one of them. Default: the mechanism's own.
	NodeTimeout time.Duration
	// MySQLDSN or SQLite is the database, already migrated; SQLite is the path of a file.
	MySQLDSN, SQLite string
	ZooKeeperAddrs   []string

	// Watchdog is the lease of locks that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// ZKSession is ZooKeeper's session timeout. Default: the mechanism's own.
	ZKSession time.Duration

	// EventFile is where events are appended. Default: a file of the client's own.
	EventFile string
	// Untraced clients record no events, and send the store only the mechanism's own commands:
	// for experiments that count commands.
	Untraced bool
}

// Validate reports what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("lockclient: it has no name")
	case c.MySQLDSN != "" && c.SQLite != "":
		return errors.New("lockclient: both a MySQL DSN and an SQLite file are given")
	case c.RedisMaster != "" && len(c.RedisAddrs) == 0:
		return errors.New("lockclient: a Redis master is named, and no sentinel")
	case min(c.RedisTimeout, c.NodeTimeout, c.Watchdog, c.ZKSession) < 0:
		return errors.New("lockclient: a duration is negative")
	}
	return nil
}

// MainIfChild turns this process into a client, and does not return, if [Start] has started it
// as one. A program whose experiments or tests have clients calls it first in its main or
// TestMain.
func MainIfChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := Main(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lockclient:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Main runs a client: it reads its [Config] and then requests, and answers them, until the
// input or ctx ends. It releases nothing then. A pending read of stdin is left behind when ctx
// ends.
func Main(ctx context.Context, stdin io.Reader, stdout, logs io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errClosing)
	messages := lines(ctx, stdin)
	out := &replies{w: stdout, broken: cancel}

	first, ok := next(ctx, messages)
	if !ok {
		return errors.New("the input ended before the configuration")
	}
	c, err := openChild(ctx, first, logs)
	if err != nil {
		return errors.Join(err, out.send(reply{Error: report(err)}))
	}
	s := &server{child: c, out: out, requests: map[int64]*call{}, leaseOf: map[int64]Lease{}}
	if err := out.send(reply{}); err != nil {
		return errors.Join(err, c.close())
	}
	for message, ok := next(ctx, messages); ok; message, ok = next(ctx, messages) {
		s.handle(ctx, message)
	}
	cancel(errClosing)
	s.calls.Wait()
	err = c.close()
	if cause := context.Cause(ctx); !errors.Is(cause, errClosing) {
		err = errors.Join(cause, err)
	}
	return err
}

// next returns the next line, or false if there is none or ctx has ended.
func next(ctx context.Context, messages <-chan []byte) ([]byte, bool) {
	select {
	case message, ok := <-messages:
		return message, ok
	case <-ctx.Done():
		return nil, false
	}
}

// errClosing is the cause with which everything ends when the input ends.
var errClosing = errors.New("lockclient: the input ended")

// lines reads line by line until the input ends, or until the first line after ctx has ended.
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

// replies writes one line at a time. If a line cannot be written, the process ends its work:
// nobody reads its replies.
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

// server accepts requests, and runs each in its own goroutine.
type server struct {
	*child
	out   *replies
	calls sync.WaitGroup

	mu       sync.Mutex
	requests map[int64]*call
	leaseOf  map[int64]Lease // by request
}

// call is a running request.
type call struct {
	cancel   context.CancelFunc
	canceled bool
}

// handle starts the request in a line.
func (s *server) handle(ctx context.Context, message []byte) {
	var r request
	if err := decodeStrict(message, &r); err != nil {
		s.answer(reply{Error: report(invalid("the request is not understood: %v", err))})
		return
	}
	if r.Do == doCancel {
		s.cancel(r.ID)
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
		s.reply(r.ID, begun, result, err)
	})
}

// serve executes the request. A panic ends the request and nothing else, as in a web server.
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

// reply sends the result. If the request was cancelled meanwhile, it releases what the request
// has obtained: nobody will ask for it.
func (s *server) reply(id int64, c *call, result any, err error) {
	s.mu.Lock()
	takenBack := c.canceled
	delete(s.requests, id)
	if g, ok := result.(Grant); ok && !takenBack && g.Lease != "" {
		s.leaseOf[id] = g.Lease
	}
	s.mu.Unlock()
	if takenBack {
		s.undo(result)
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

// cancel ends a request. If it was already answered, after its caller had given up, it
// releases the lease that the request has obtained.
func (s *server) cancel(id int64) {
	s.mu.Lock()
	c, working := s.requests[id]
	if working {
		c.canceled = true
	}
	lease, granted := s.leaseOf[id]
	s.mu.Unlock()
	switch {
	case working:
		c.cancel()
	case granted:
		s.calls.Go(func() { s.undo(Grant{Lease: lease}) })
	}
}

func (s *server) answer(message reply) {
	if err := s.out.send(message); err != nil {
		s.log.Warn("a reply is lost", slog.Any("error", err))
	}
}

// decodeStrict decodes exactly one JSON value, without unknown fields.
func decodeStrict(data []byte, into any) error {
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
