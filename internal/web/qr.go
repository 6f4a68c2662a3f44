package web

import (
	"bytes"
	"fmt"
	"net/http"

	"rsc.io/qr"
)

// QRPath is where QR codes are: a picture has no other way to the text that it shows than its address.
const QRPath = "/qr.svg"

// maxQR bounds the text, in bytes: an address. A code of more is too fine for a phone at the other end of a room.
const maxQR = 300

// quiet is the width of the margin that a code must have, in modules (ISO/IEC 18004).
const quiet = 4

// serveQR answers GET ?text= with the text as a QR code.
func serveQR(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("text")
	if text == "" || len(text) > maxQR {
		http.Error(w, fmt.Sprintf("text has %d bytes; 1 to %d", len(text), maxQR), http.StatusBadRequest)
		return
	}
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", contentTypes[".svg"])
	w.Header().Set("Cache-Control", forEver)
	_, _ = w.Write(draw(code)) // fails when the client is gone
}

// draw returns a code as SVG, a path with a square for each dark module.
func draw(code *qr.Code) []byte {
	var out bytes.Buffer
	side := code.Size + 2*quiet
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`+
		`<path fill="#fff" d="M0 0h%dv%dh-%dz"/><path d="`, side, side, side, side, side)
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&out, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	out.WriteString(`"/></svg>`)
	return out.Bytes()
}
