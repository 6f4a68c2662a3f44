// Package auth mints and verifies the tokens by which a user is known: a JWT
// (RFC 7519) signed with HMAC-SHA-256, whose subject is the user's id.
//
// The method is pinned and the expiry is required: a token that names another
// algorithm, "none" among them, or that never ends is not one of ours, whatever
// its signature says.
package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// What can go wrong. Compare with errors.Is.
var (
	// ErrToken: the token is malformed, forged, expired, or names no user.
	ErrToken = errors.New("auth: token not accepted")
	// ErrSecret: the secret is too short to sign with.
	ErrSecret = errors.New("auth: secret too short")
	// ErrMint: nothing can be minted for that user or that long.
	ErrMint = errors.New("auth: token cannot be minted")
)

const (
	// MinSecret is the shortest secret, in bytes: what HMAC-SHA-256 puts out, as
	// RFC 7518 §3.2 demands.
	MinSecret = 32
	// MaxTTL bounds how long a token is good for.
	MaxTTL = 30 * 24 * time.Hour
	// Leeway is by how much the clocks of two machines may differ.
	Leeway = 5 * time.Second
)

// Tokens mints and verifies. It is safe for use by several goroutines.
type Tokens struct {
	secret []byte
	now    func() time.Time
	parser *jwt.Parser
	key    jwt.Keyfunc
	seen   seen
}

// NewTokens returns tokens signed with a secret of at least [MinSecret] bytes,
// else [ErrSecret]. now is the clock; nil takes the system's.
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
	t.key = func(*jwt.Token) (any, error) { return t.secret, nil }
	return t, nil
}

// Mint returns a token that says for ttl, at most [MaxTTL], who the user is; or
// [ErrMint].
func (t *Tokens) Mint(userID int64, ttl time.Duration) (string, error) {
	switch {
	case userID <= 0:
		return "", fmt.Errorf("%w: user id %d is not positive", ErrMint, userID)
	case ttl < time.Second || ttl > MaxTTL:
		return "", fmt.Errorf("%w: good for %v; 1s to %v", ErrMint, ttl, MaxTTL)
	}
	now := t.now()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   strconv.FormatInt(userID, 10),
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}).SignedString(t.secret)
}

// Verify returns whose token it is, or [ErrToken]. The reason is for a log, not
// for the client. Of a token that is refused nothing is remembered.
func (t *Tokens) Verify(token string) (userID int64, err error) {
	d := sha256.Sum256([]byte(token))
	if id, ok := t.seen.find(d, t.now()); ok {
		return id, nil
	}
	var claims jwt.RegisteredClaims
	if _, err := t.parser.ParseWithClaims(token, &claims, t.key); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrToken, err)
	}
	id, err := strconv.ParseInt(claims.Subject, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != claims.Subject {
		return 0, fmt.Errorf("%w: the subject %q is not a user id", ErrToken, claims.Subject)
	}
	t.seen.add(d, bearer{userID: id, until: claims.ExpiresAt.Time})
	return id, nil
}
