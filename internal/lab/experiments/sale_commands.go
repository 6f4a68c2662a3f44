package experiments

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
)

// commandLimit is the number of commands per grant beyond which they count as
// [finding.ExcessCommands].
const commandLimit = 10

// countCommands serves 40 buyers one after the other and counts the commands that Redis
// executes meanwhile. The processes do not record events: that would be counted, too.
func countCommands(t *lab.Trial, setup lab.Setup) {
	buyers := cmp.Or(setup.Buyers, 40)
	sale := t.Sale(setup.Policy, int64(buyers), t.API(setup.Instances, testbed.Untraced))
	monitored := monitor(t)
	outcome := sale.SendLoad(load.Load{Buyers: buyers, Concurrency: buyers})
	commands := monitored()
	t.Load(outcome)
	t.Judge(sale.Evidence())

	grants := outcome.Answers[load.Created]
	if grants == 0 {
		t.Fatalf("nobody got the lock: %v", outcome.Answers)
	}
	excess := max(0, len(commands)-commandLimit*grants)
	t.Found(finding.ExcessCommands, excess)
	t.Measure(i18n.F("commands for each grant"), float64(len(commands))/float64(grants), i18n.F("commands"))
	if excess > 0 {
		if w, ok := drawPollers(commands, "{"+sale.Key(1)+"}"); ok {
			t.Witness(w)
		}
	}
}

// command is one that Redis executed, in a script or by itself.
type command struct {
	at   time.Duration // since 1970
	text string        // its words in quotes, with spaces between
}

// words are a command's name and arguments.
func (c command) words() []string { return strings.Split(strings.Trim(c.text, `"`), `" "`) }

// monitor starts MONITOR on the shared redis-server. The function that it returns stops it and
// returns all commands since. The MONITOR of go-redis is not used because it returns a
// monitoring connection to its pool.
func monitor(t *lab.Trial) (commands func() []command) {
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", t.Redis().Addr())
	if err != nil {
		t.Fatalf("monitor Redis: %w", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("monitor Redis: %w", err)
		}
	})
	lines := bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("monitor Redis: %q, %w", lines.Text(), errors.Join(err, lines.Err()))
	}
	var all []command
	// The end of what Redis has executed by now is marked by a command that nobody else sends.
	last := fmt.Sprintf("the end of %p", &all)
	done := t.Go(func() {
		for lines.Scan() {
			c, ok := parseCommand(lines.Text())
			if !ok {
				t.Fatalf("monitor Redis: %q is not understood", lines.Text())
			}
			if strings.Contains(c.text, last) {
				return
			}
			all = append(all, c)
		}
		t.Fatalf("monitor Redis: it ended early: %w", lines.Err())
	})
	client := t.RedisClient()
	return func() []command {
		if err := client.Echo(t.Context(), last).Err(); err != nil {
			t.Fatalf("monitor Redis: %w", err)
		}
		done()
		return all
	}
}

// parseCommand reads a line such as
//
//	+1339518083.107412 [0 127.0.0.1:60866] "set" "key" "value"
func parseCommand(line string) (command, bool) {
	at, rest, ok := strings.Cut(strings.TrimPrefix(line, "+"), " [")
	if !ok {
		return command{}, false
	}
	seconds, micros, ok := strings.Cut(at, ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	_, text, found := strings.Cut(rest, "] ")
	return command{at: time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond, text: text},
		ok && found && err1 == nil && err2 == nil
}

// pollingClient is a client that polls for the lock, as the server sees it: identified by the
// value that it sends.
type pollingClient struct {
	name     string
	asks     []time.Duration
	released time.Duration
}

// granted is the last time it asked.
func (c *pollingClient) granted() time.Duration { return c.asks[len(c.asks)-1] }

// pollingClients returns the clients that poll for a key with SET and release it with a
// script, in the order in which they were granted it.
func pollingClients(commands []command, key string) []*pollingClient {
	by := map[string]*pollingClient{}
	var served []*pollingClient
	for _, c := range commands {
		w := c.words()
		if len(w) < 3 || !strings.Contains(c.text, key) {
			continue
		}
		switch strings.ToLower(w[0]) {
		case "set":
			if by[w[2]] == nil {
				by[w[2]] = &pollingClient{}
			}
			by[w[2]].asks = append(by[w[2]].asks, c.at)
		case "evalsha":
			if one := by[w[len(w)-1]]; one != nil && one.released == 0 {
				one.released = c.at
				served = append(served, one)
			}
		}
	}
	slices.SortFunc(served, func(a, b *pollingClient) int { return cmp.Compare(a.granted(), b.granted()) })
	return served
}

// drawnWaiters is how many waiters are drawn.
const drawnWaiters = 3

// drawPollers draws one turn of the lock: from a grant to the end of the next one, and how
// often the waiters ask meanwhile.
func drawPollers(commands []command, key string) (finding.Witness, bool) {
	all := pollingClients(commands, key)
	if len(all) < drawnWaiters+2 {
		return finding.Witness{}, false
	}
	turn := min(len(all)/4, len(all)-drawnWaiters-2) // when many wait
	holder, next, behind := all[turn], all[turn+1], all[turn+2:]
	from, to := holder.granted(), next.released
	at := func(t time.Duration) float64 { return float64(max(t-from, 0)) / float64(time.Millisecond) }

	inVain := 0
	asked := func(c *pollingClient) (marks []finding.Mark) {
		for _, t := range c.asks[:len(c.asks)-1] {
			if t >= from && t <= to {
				marks = append(marks, finding.Mark{Kind: finding.Refuses, At: at(t), Wrong: true})
			}
		}
		return marks
	}
	for _, c := range all[turn+1:] {
		inVain += len(asked(c))
	}
	holder.name, next.name = "holder", "next holder"
	store := finding.Lane{Name: "Redis", Role: finding.LockStore}
	var lanes []finding.Lane
	for _, c := range []*pollingClient{holder, next} {
		held := finding.Span{Kind: finding.Held, From: at(c.granted()), To: at(c.released), Who: c.name}
		lane := finding.Lane{Name: c.name, Role: finding.Actor, Marks: asked(c)}
		if c == next {
			lane.Spans = append(lane.Spans, finding.Span{Kind: finding.Waits, To: held.From, Who: c.name})
		}
		lane.Spans = append(lane.Spans, held)
		lanes = append(lanes, lane)
		held.Kind = finding.Stored
		store.Spans = append(store.Spans, held)
	}
	for i, c := range behind[:drawnWaiters] {
		c.name = fmt.Sprintf("waiter %d", i+1)
		lanes = append(lanes, finding.Lane{Name: c.name, Role: finding.Actor, Marks: asked(c), Spans: []finding.Span{
			{Kind: finding.Waits, To: at(to), Open: true, Who: c.name},
		}})
	}
	return finding.Witness{
		Kind: finding.ExcessCommands, Key: strings.Trim(key, "{}"), Lanes: append(lanes, store),
		Summary: i18n.F("Two buyers have the lock, one after the other, for %.0f ms together. Meanwhile Redis is asked for it %d times in vain, "+
			"by %d buyers who wait; %d of them are drawn.", at(to), inVain, len(behind)+1, drawnWaiters+1),
	}, true
}
