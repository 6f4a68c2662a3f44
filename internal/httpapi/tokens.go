package httpapi

import (
	"context"
	"net/http"
	"time"
)

// labTokenTTL is the lifetime of a token in lab mode: long enough for a day's workshop.
const labTokenTTL = 12 * time.Hour

type tokenJSON struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// mintToken is POST /api/v1/tokens. In lab mode it issues a token for any user to any caller.
func (a *API) mintToken(_ context.Context, r *request) (reply, error) {
	if !a.cfg.Lab {
		return reply{}, errLabOnly
	}
	body, err := r.readJSON()
	if err != nil {
		return reply{}, err
	}
	var given string
	if err := decodeObject(body, func(o *object) { o.text("user_id", &given) }); err != nil {
		return reply{}, err
	}
	userID, err := parseID("user_id", given)
	if err != nil {
		return reply{}, err
	}
	expires := a.deps.Now().Add(labTokenTTL).UTC().Truncate(time.Second)
	token, err := a.deps.Tokens.Mint(userID, labTokenTTL)
	if err != nil {
		return reply{}, err
	}
	return a.render(http.StatusCreated, tokenJSON{Token: token, ExpiresAt: expires})
}
