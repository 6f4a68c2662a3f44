package explore

import (
	"bytes"
	"crypto/sha1" // EVALSHA names a script by this digest; it protects nothing
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/lab/i18n"
)

// buyer is a process' buyer, as pictures name it.
func buyer(number int) i18n.Name { return i18n.Name("buyer " + strconv.Itoa(number)) }

// server is how a server is called: Redis, or one of several nodes.
func (b *bed) server(number int) i18n.Text {
	if len(b.nodes) == 1 {
		return i18n.Plain("Redis")
	}
	return i18n.F("node %s", i18n.Plain(strconv.Itoa(number)))
}

// says tells what a step will do.
func (b *bed) says(o option) i18n.Text {
	who := buyer(o.On)
	message := i18n.Text{}
	if o.queue != nil && len(o.queue.items) > 0 {
		message = i18n.Plain(shorten(b.tidy(words(o.queue.items[0].data))))
	}
	switch o.Action {
	case Begin:
		return i18n.Sentence(i18n.F("%s comes and asks for the lock", who))
	case Request:
		return i18n.Sentence(i18n.F("the request of %s reaches %s: %s", who, b.server(o.queue.wire.node.number), message))
	case Reply:
		return i18n.Sentence(i18n.F("%s tells %s: %s", b.server(o.queue.wire.node.number), who, message))
	case Work:
		return i18n.Sentence(i18n.F("%s writes, and begins to release", who))
	case Pause:
		return i18n.Sentence(i18n.F("the process of %s pauses", who))
	case Resume:
		return i18n.Sentence(i18n.F("the process of %s goes on", who))
	case Kill:
		return i18n.Sentence(i18n.F("the process of %s dies", who))
	case Cut:
		return i18n.Sentence(i18n.F("a connection of %s breaks, with what is under way on it", who))
	case Restart:
		return i18n.Sentence(i18n.F("%s restarts without its data", b.server(o.On)))
	case Jump:
		return i18n.Sentence(i18n.F("the clock of %s jumps forward by %s", b.server(o.On), i18n.Plain(lease.String())))
	}
	return i18n.Sentence(i18n.F("time goes on"))
}

// passed tells how time went on.
func passed(by time.Duration, ended bool) i18n.Text {
	d := i18n.Plain(by.Round(time.Millisecond).String())
	if ended {
		return i18n.Sentence(i18n.F("time goes on by %s, until a key ends", d))
	}
	return i18n.Sentence(i18n.F("time goes on by %s", d))
}

// scripts are what the first comments of Lua scripts say, by their digests.
var scripts sync.Map

// A script's comment, before it lists its keys.
var purpose = regexp.MustCompile(`(?s)-- ([A-Z][^\n]*)\n(?:-- [^\n]*\n)*--\n-- KEYS\[1\]`)

// learnScript remembers the script of a request, if it has one.
func learnScript(request []byte) {
	_, after, found := bytes.Cut(request, []byte("eval\r\n"))
	if !found {
		return
	}
	source, found := nextWord(after)
	if m := purpose.FindSubmatch(source); found && m != nil {
		digest := sha1.Sum(source)
		scripts.Store(hex.EncodeToString(digest[:]), string(m[1]))
	}
}

// rewritten is a request with the scripts that it has changed by rewrite.
func rewritten(request []byte, rewrite func(string) string) []byte {
	before, after, found := bytes.Cut(request, []byte("eval\r\n"))
	if !found {
		return request
	}
	source, ok := nextWord(after)
	if !ok {
		return request
	}
	_, rest, _ := bytes.Cut(after, []byte("\r\n"))
	changed := rewrite(string(source))
	return slices.Concat(before, []byte("eval\r\n$"+strconv.Itoa(len(changed))+"\r\n"+changed), rewritten(rest[len(source):], rewrite))
}

// nextWord reads one word of the protocol: its length, and itself.
func nextWord(data []byte) ([]byte, bool) {
	head, rest, ok := bytes.Cut(data, []byte("\r\n"))
	if !ok || len(head) < 2 || head[0] != '$' {
		return nil, false
	}
	n, err := strconv.Atoi(string(head[1:]))
	if err != nil || n < 0 || n > len(rest) {
		return nil, false
	}
	return rest[:n], true
}

// words are a message's words, without the lengths of the protocol. A script is told by what its comment says.
func words(message []byte) string {
	var all []string
	for len(message) > 0 {
		line, rest, _ := bytes.Cut(message, []byte("\r\n"))
		switch {
		case len(line) > 0 && line[0] == '$':
			if word, ok := nextWord(message); ok {
				all, message = append(all, string(word)), rest[min(len(word)+2, len(rest)):]
				continue
			}
			all = append(all, "nil")
		case len(line) > 0 && line[0] == '_':
			all = append(all, "nil")
		case len(line) > 0 && strings.IndexByte(":+-", line[0]) >= 0:
			all = append(all, string(line[1:]))
		case len(line) > 0 && strings.IndexByte("*>~%", line[0]) < 0:
			all = append(all, string(line))
		}
		message = rest
	}
	if len(all) > 1 && (all[0] == "evalsha" || all[0] == "eval") {
		digest := all[1]
		if all[0] == "eval" {
			sum := sha1.Sum([]byte(all[1]))
			digest = hex.EncodeToString(sum[:])
		}
		if says, ok := scripts.Load(digest); ok {
			all = append([]string{"a script (" + strings.TrimSuffix(says.(string), ".") + ")"}, all[min(3, len(all)):]...)
		}
	} else if len(all) > 0 {
		all[0] = strings.ToUpper(all[0])
	}
	return strings.Join(all, " ")
}

// shorten cuts a text that is too long for a line.
func shorten(text string) string {
	const most = 160
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return text
}
