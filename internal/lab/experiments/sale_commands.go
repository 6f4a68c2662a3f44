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
	"seckill/internal/lab/load"
	"seckill/internal/lab/stage"
)

// enough commands for a grant: the measure of [finding.ExcessCommands].
const enough = 10

// countCommands serves 40 buyers one after the other and counts what Redis is asked
// meanwhile. The processes do not record what they do: that would be counted, too.
func countCommands(p *lab.Play, with lab.Setup) {
	const buyers = 40
	sale := p.Sale(with.Policy, buyers, p.API(with.Instances, stage.Untraced))
	monitored := monitor(p)
	outcome := sale.Rush(load.Load{Buyers: buyers, AtOnce: buyers})
	commands := monitored()
	p.Load(outcome)
	p.Judge(sale.Evidence())

	grants := outcome.Answers[load.Created]
	if grants == 0 {
		p.Fatalf("nobody got the lock: %v", outcome.Answers)
	}
	excess := max(0, len(commands)-enough*grants)
	p.Found(finding.ExcessCommands, excess)
	p.Measure("commands for each grant", float64(len(commands))/float64(grants), "commands")
	if excess > 0 {
		if w, ok := pollers(commands, "{"+sale.Key(1)+"}"); ok {
			p.Witness(w)
		}
	}
}

// command is one that Redis carried out, in a script or by itself.
type command struct {
	at   time.Duration // since 1970
	text string        // its words in quotes, with blanks between
}

// words are a command's name and arguments.
func (c command) words() []string { return strings.Split(strings.Trim(c.text, `"`), `" "`) }

// monitor listens to the shared redis-server. The function returned ends that and gives
// all that was carried out meanwhile. go-redis has a MONITOR of its own, but gives a
// connection that listens back to its pool.
func monitor(p *lab.Play) (commands func() []command) {
	conn, err := new(net.Dialer).DialContext(p.Context(), "tcp", p.Redis().Addr())
	if err != nil {
		p.Fatalf("monitor Redis: %w", err)
	}
	p.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			p.Errorf("monitor Redis: %w", err)
		}
	})
	lines := bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		p.Fatalf("monitor Redis: %q, %w", lines.Text(), errors.Join(err, lines.Err()))
	}
	var all []command
	// What Redis has carried out by then ends with a command that nobody else sends.
	last := fmt.Sprintf("the end of %p", &all)
	done := p.Go(func() {
		for lines.Scan() {
			c, ok := parseCommand(lines.Text())
			if !ok {
				p.Fatalf("monitor Redis: %q is not understood", lines.Text())
			}
			if strings.Contains(c.text, last) {
				return
			}
			all = append(all, c)
		}
		p.Fatalf("monitor Redis: it ended early: %w", lines.Err())
	})
	client := p.RedisClient()
	return func() []command {
		if err := client.Echo(p.Context(), last).Err(); err != nil {
			p.Fatalf("monitor Redis: %w", err)
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

// contender is somebody who wants the lock, as its server sees it: by the value that it
// asks for it with.
type contender struct {
	name     string
	asks     []time.Duration
	released time.Duration
}

// granted is the last time it asked.
func (c *contender) granted() time.Duration { return c.asks[len(c.asks)-1] }

// contenders reads those who poll for a key with SET and release it with a script, in
// the order in which they were granted it.
func contenders(commands []command, key string) []*contender {
	by := map[string]*contender{}
	var served []*contender
	for _, c := range commands {
		w := c.words()
		if len(w) < 3 || !strings.Contains(c.text, key) {
			continue
		}
		switch strings.ToLower(w[0]) {
		case "set":
			if by[w[2]] == nil {
				by[w[2]] = &contender{}
			}
			by[w[2]].asks = append(by[w[2]].asks, c.at)
		case "evalsha":
			if one := by[w[len(w)-1]]; one != nil && one.released == 0 {
				one.released = c.at
				served = append(served, one)
			}
		}
	}
	slices.SortFunc(served, func(a, b *contender) int { return cmp.Compare(a.granted(), b.granted()) })
	return served
}

// drawnWaiters is how many of them one can look at.
const drawnWaiters = 3

// pollers draws one turn of the lock: from a grant to the end of the next one, and how
// often those behind ask meanwhile.
func pollers(commands []command, key string) (finding.Witness, bool) {
	all := contenders(commands, key)
	if len(all) < drawnWaiters+2 {
		return finding.Witness{}, false
	}
	turn := min(len(all)/4, len(all)-drawnWaiters-2) // when many wait
	holder, next, behind := all[turn], all[turn+1], all[turn+2:]
	from, to := holder.granted(), next.released
	at := func(t time.Duration) float64 { return float64(max(t-from, 0)) / float64(time.Millisecond) }

	inVain := 0
	asked := func(c *contender) (marks []finding.Mark) {
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
	for _, c := range []*contender{holder, next} {
		held := finding.Span{Kind: finding.Believes, From: at(c.granted()), To: at(c.released), Who: c.name}
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
		Summary: fmt.Sprintf("Two buyers have the lock, one after the other, for %.0f ms together. Meanwhile Redis is asked for it %d times in vain, "+
			"by %d who wait; %d of them are drawn.", at(to), inVain, len(behind)+1, drawnWaiters+1),
	}, true
}
