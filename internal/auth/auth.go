// Package auth issues and verifies the tokens that identify a user: JWTs (RFC 7519) signed with HMAC-SHA-256, whose
// subject is the user's id.
//
// The algorithm is pinned and the expiry is required. A token that names another algorithm (such as "none") or never
// expires is refused, whatever its signature.
package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The errors of this package. Compare with errors.Is.
var (
	// ErrToken: the token is malformed, forged, expired, or names no user.
	ErrToken = errors.New("auth: token not accepted")
	// ErrSecret: the secret is too short to sign with.
	ErrSecret = errors.New("auth: secret too short")
	// ErrMint: the user id or the lifetime of the requested token is not valid.
	ErrMint = errors.New("auth: token cannot be minted")
)

var errCritical = errors.New("auth: the token's header has crit")

const (
	// MinSecret is the length of the shortest secret, in bytes: that of HMAC-SHA-256's output, as RFC 7518 §3.2
	// demands.
	MinSecret = 32
	// MaxTTL is the longest lifetime of a token.
	MaxTTL = 30 * 24 * time.Hour
	// Leeway is the tolerated difference between the clocks of two machines.
	Leeway = 5 * time.Second
)

// Tokens mints and verifies tokens. It is safe for use by several goroutines.
type Tokens struct {
	secret   []byte
	now      func() time.Time
	parser   *jwt.Parser
	key      jwt.Keyfunc
	verified cache
}

// NewTokens returns a Tokens with a secret of at least [MinSecret] bytes. A shorter one is an [ErrSecret]. now is the
// clock; nil means the system's.
func NewTokens(secret []byte, now func() time.Time) (*Tokens, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: %d bytes; at least %d", ErrSecret, len(secret), MinSecret)
	}
	if now == nil {
		now = time.Now
	}
	t := &Tokens{secret: append([]byte(nil), secret...), now: now}
	t.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(Leeway),
		jwt.WithTimeFunc(now),
		jwt.WithStrictDecoding(),
	)
	t.key = func(token *jwt.Token) (any, error) {
		// crit names extensions that the recipient must understand (RFC 7515 §4.1.11); this one understands none.
		if _, critical := token.Header["crit"]; critical {
			return nil, errCritical
		}
		return t.secret, nil
	}
	return t, nil
}

// Mint returns a token for the user that is valid for ttl, from 1 s to [MaxTTL]. Its error is [ErrMint].
func (t *Tokens) Mint(userID int64, ttl time.Duration) (string, error) {
	switch {
	case userID <= 0:
		return "", fmt.Errorf("%w: user id %d is not positive", ErrMint, userID)
	case ttl < time.Second || ttl > MaxTTL:
		return "", fmt.Errorf("%w: valid for %v; 1s to %v", ErrMint, ttl, MaxTTL)
	}
	now := t.now()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   strconv.FormatInt(userID, 10),
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}).SignedString(t.secret)
}

// Verify returns the user of a token, or [ErrToken]. The reason in the error is for a log, not for the client. Only
// accepted tokens are cached.
func (t *Tokens) Verify(token string) (userID int64, err error) {
	d := sha256.Sum256([]byte(token))
	if id, ok := t.verified.find(d, t.now()); ok {
		return id, nil
	}
	// A map, since a struct would take the claim SUB for sub: names of claims are case-sensitive (RFC 7519 §4).
	claims := jwt.MapClaims{}
	if _, err := t.parser.ParseWithClaims(token, claims, t.key); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrToken, err)
	}
	subject, err := claims.GetSubject()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrToken, err)
	}
	id, err := strconv.ParseInt(subject, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != subject {
		return 0, fmt.Errorf("%w: the subject %q is not a user id", ErrToken, subject)
	}
	expires, err := claims.GetExpirationTime()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrToken, err)
	}
	t.verified.add(d, user{id: id, expires: expires.Time})
	return id, nil
}
