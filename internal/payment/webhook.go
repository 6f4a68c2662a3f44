package payment

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The errors of a webhook or a secret. Compare with errors.Is.
var (
	// ErrForged: the headers are missing or malformed, or no signature is one of ours.
	ErrForged = errors.New("payment: webhook not accepted")
	// ErrStale: the webhook is signed, but its timestamp is too far from now: it may be a recorded one.
	ErrStale = errors.New("payment: webhook out of time")
	// ErrSecret: a webhook secret is malformed, too short or too long.
	ErrSecret = errors.New("payment: webhook secret not valid")
)

// The headers of a webhook.
const (
	HeaderID        = standardwebhooks.HeaderWebhookID
	HeaderTimestamp = standardwebhooks.HeaderWebhookTimestamp
	HeaderSignature = standardwebhooks.HeaderWebhookSignature
)

const (
	// SecretPrefix begins each secret; the key follows in base64.
	SecretPrefix = "whsec_"
	// The specification's bounds of a key, in bytes.
	minKey, maxKey = 24, 64
	// maxID bounds the ids of events, payments and refunds, in bytes. Those of payments are stored.
	maxID = 64
	// maxSignatures bounds the work that an unauthenticated request causes. A sender has as many as it has secrets.
	maxSignatures = 16
	// signatureVersion begins a signature; 32 bytes in base64 follow.
	signatureVersion = "v1,"
)

// Webhooks signs webhooks and verifies them. It has several secrets while one is being replaced by another.
type Webhooks struct {
	secrets []*standardwebhooks.Webhook
}

// NewWebhooks returns Webhooks that sign with each of the secrets and accept a signature of any of them.
func NewWebhooks(secrets ...string) (*Webhooks, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrSecret)
	}
	w := &Webhooks{}
	for _, secret := range secrets {
		if _, err := SecretKey(secret); err != nil {
			return nil, err
		}
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("%w: not base64", ErrSecret) // the library's error might show a part of it
		}
		w.secrets = append(w.secrets, signer)
	}
	return w, nil
}

// SecretKey returns the key in a secret, or an [ErrSecret] unless that is whsec_ and a key of 24 to 64 bytes in base64.
// The error does not show the secret.
func SecretKey(secret string) ([]byte, error) {
	encoded, found := strings.CutPrefix(secret, SecretPrefix)
	if !found {
		return nil, fmt.Errorf("%w: want %s and a key in base64", ErrSecret, SecretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: what follows %s is not base64", ErrSecret, SecretPrefix)
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("%w: the key has %d bytes, want %d to %d", ErrSecret, len(key), minKey, maxKey)
	}
	return key, nil
}

// Sign sets the headers of a webhook that is sent at a time.
func (w *Webhooks) Sign(header http.Header, id string, at time.Time, body []byte) error {
	if !validID(id) {
		return fmt.Errorf("%w: the id %q", ErrForged, id)
	}
	signatures := make([]string, len(w.secrets))
	for i, secret := range w.secrets {
		var err error
		if signatures[i], err = secret.Sign(id, at, body); err != nil {
			return fmt.Errorf("sign a webhook: %w", err)
		}
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// Verify returns the id of a webhook, or [ErrForged] or [ErrStale]. A timestamp may be 5 minutes off in either
// direction. A webhook that was recorded and sent again within that time is accepted, like an event that the provider
// sends twice: its payment's id tells, see [Settlements.Receive].
func (w *Webhooks) Verify(header http.Header, body []byte) (id string, err error) {
	if err := CheckHeader(header); err != nil {
		return "", err
	}
	id = header.Get(HeaderID)
	// A forged webhook is forged whatever its time: whoever has no secret learns nothing about the clock.
	for _, secret := range w.secrets {
		if secret.VerifyIgnoringTimestamp(body, header) != nil {
			continue
		}
		if err := secret.Verify(body, header); err != nil {
			return "", fmt.Errorf("%w: %w", ErrStale, err)
		}
		return id, nil
	}
	return "", fmt.Errorf("%w: no signature matches", ErrForged)
}

// CheckHeader returns an [ErrForged] if the headers of a webhook alone show that [Webhooks.Verify] will not accept it:
// one is missing or malformed. It says nothing about the time.
func CheckHeader(header http.Header) error {
	for _, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		if n := len(header.Values(name)); n != 1 {
			return fmt.Errorf("%w: %s was sent %d times", ErrForged, name, n)
		}
	}
	if !validID(header.Get(HeaderID)) {
		return fmt.Errorf("%w: %s is malformed", ErrForged, HeaderID)
	}
	if _, err := strconv.ParseInt(header.Get(HeaderTimestamp), 10, 64); err != nil {
		return fmt.Errorf("%w: %s is malformed", ErrForged, HeaderTimestamp)
	}
	signatures := strings.Split(header.Get(HeaderSignature), " ")
	if len(signatures) > maxSignatures {
		return fmt.Errorf("%w: more than %d signatures", ErrForged, maxSignatures)
	}
	if !slices.ContainsFunc(signatures, validSignature) {
		return fmt.Errorf("%w: %s is malformed", ErrForged, HeaderSignature)
	}
	return nil
}

func validSignature(signature string) bool {
	encoded, known := strings.CutPrefix(signature, signatureVersion)
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	return known && err == nil && len(decoded) == sha256.Size
}

// validID reports whether an id has the characters that the providers' ids have. The dot is not one of them: in the
// signed text it separates id, timestamp and body, so an id with a dot would allow two readings of one signature.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
