package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxBody is the largest body, in bytes: ten times the largest realistic voucher.
const maxBody = 64 << 10

// readJSON reads a body whose Content-Type is JSON.
func (r *request) readJSON() ([]byte, error) {
	body, err := r.readBody()
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0:
		return nil, invalid("the body is empty; a JSON object is expected")
	}
	return body, r.isJSON()
}

// readNothing accepts no body or an empty JSON object.
func (r *request) readNothing() error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := r.readBody()
	if err != nil || len(body) == 0 {
		return err
	}
	if err := r.isJSON(); err != nil {
		return err
	}
	return decodeObject(body, func(*object) {})
}

// readBody reads the body, up to its limit. It is called once.
func (r *request) readBody() ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(r.gin.Writer, r.Body, maxBody))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, invalid("the body could not be read to its end")
	}
	return body, nil
}

func (r *request) isJSON() error {
	given := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err != nil || media != "application/json" {
		return invalid("Content-Type is %q; application/json is expected", clip(given))
	}
	return nil
}

func tooLarge() error { return fmt.Errorf("%w: at most %d bytes", errTooLarge, maxBody) }

// render returns a reply with v as JSON.
func (a *API) render(status int, v any) (reply, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return reply{}, fmt.Errorf("render the answer: %w", err)
	}
	return reply{status: status, contentType: a.problems.json, body: body, outcome: "ok"}, nil
}
