package httpserver

import (
	"bytes"
	"errors"
	"net"
	"time"
)

// maxHeaderLines bounds the lines of a request's header, the request line apart. net/http bounds their bytes only, by
// maxHeaderBytes and 4 kB more: 4,000 lines of five bytes fit into that, and take 0.8 MB in its map. A browser sends
// about 20 lines.
const maxHeaderLines = 100

const (
	// tooManyLines is what net/http answers to a header of too many bytes.
	tooManyLines = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Connection: close\r\n\r\n431 Request Header Fields Too Large"
	// lingerTimeout is how long the rest of such a header is read and thrown away. A connection that is closed before
	// that is reset, and the client may not see the answer.
	lingerTimeout = 500 * time.Millisecond
)

// errHeaderLines ends a connection. net/http answers nothing to an error of a read.
var errHeaderLines error = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("too many header lines")}

// headerLines counts the lines of each header that a connection reads. Its zero value is that of a new connection.
//
// That a header has ended is known when net/http calls the handler. A blank line says so earlier, but only a parser
// knows which blank line counts. So a read ends at each blank line, and nothing of a body is taken for a header.
type headerLines struct {
	lines int
	begun bool // the current line has a character
	// body is how much of the body has not been read, in bytes; negative if its length is not known, and then no other
	// header follows. After it the next header begins.
	body    int64
	refused bool   // net/http reads on after an error
	rest    []byte // was read from the connection together with the end of a header
}

// beginBody says that a header has ended. After a body of length 0 the next one begins.
func (h *headerLines) beginBody(length int64) { h.lines, h.begun, h.body = 0, false, length }

// bounded returns the part of p that may be filled by the next read.
func (h *headerLines) bounded(p []byte) []byte {
	if h.body > 0 {
		return p[:min(int64(len(p)), h.body)]
	}
	return p
}

// pass copies bytes of a connection into p, as many as are to be passed on now. The others are the rest.
func (h *headerLines) pass(p, from []byte) (int, error) {
	part := from[:min(len(p), len(from))]
	n, err := h.count(part)
	copy(p, part[:n])
	if h.rest = from[n:]; len(h.rest) == 0 {
		h.rest = nil // an idle connection keeps no memory
	}
	return n, err
}

// count counts up to the first blank line, and returns how much that is.
func (h *headerLines) count(p []byte) (n int, err error) {
	switch {
	case h.refused:
		return 0, errHeaderLines
	case h.body > 0:
		h.body -= int64(len(p)) // bounded has seen to it that p has no more
		return len(p), nil
	case h.body < 0:
		return len(p), nil
	}
	for n < len(p) {
		end := bytes.IndexByte(p[n:], '\n')
		if end < 0 {
			h.begun = h.begun || string(p[n:]) != "\r"
			return len(p), nil
		}
		if h.lines++; h.lines > 1+maxHeaderLines+1 { // with the request line and the blank one
			return 0, errHeaderLines
		}
		blank := !h.begun && (end == 0 || end == 1 && p[n] == '\r')
		h.begun = false
		if n += end + 1; blank {
			break
		}
	}
	return n, nil
}
