package payment

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/testkit/fail"
)

// The example of the specification: https://github.com/standard-webhooks/standard-webhooks.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	otherSecret      = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	wrongSignature   = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
)

var exampleTime = time.Unix(1614265330, 0)

func newWebhooks(t testing.TB, secrets ...string) *Webhooks {
	t.Helper()
	w, err := NewWebhooks(secrets...)
	fail.NowIf(t, err)
	return w
}

func signed(t testing.TB, w *Webhooks, at time.Time) http.Header {
	t.Helper()
	h := http.Header{}
	fail.NowIf(t, w.Sign(h, exampleID, at, []byte(exampleBody)))
	return h
}

func TestSignAsInTheSpecification(t *testing.T) {
	h := signed(t, newWebhooks(t, exampleSecret), exampleTime)
	fail.Unequal(t, h.Get(HeaderSignature), exampleSignature, "signature")
	if h.Get(HeaderID) != exampleID || h.Get(HeaderTimestamp) != "1614265330" {
		t.Errorf("headers %v", h)
	}
}

// Each case changes a webhook that is accepted.
func TestVerify(t *testing.T) {
	for name, test := range map[string]struct {
		change func(h http.Header, body *string)
		want   error
	}{
		"unchanged":         {func(http.Header, *string) {}, nil},
		"other body":        {func(_ http.Header, body *string) { *body = `{"test": 2432232315}` }, ErrForged},
		"empty body":        {func(_ http.Header, body *string) { *body = "" }, ErrForged},
		"other id":          {func(h http.Header, _ *string) { h.Set(HeaderID, "msg_other") }, ErrForged},
		"no id":             {func(h http.Header, _ *string) { h.Del(HeaderID) }, ErrForged},
		"two ids":           {func(h http.Header, _ *string) { h.Add(HeaderID, exampleID) }, ErrForged},
		"long id":           {func(h http.Header, _ *string) { h.Set(HeaderID, strings.Repeat("a", maxID+1)) }, ErrForged},
		"later timestamp":   {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, strconv.FormatInt(time.Now().Unix()+1, 10)) }, ErrForged},
		"no timestamp":      {func(h http.Header, _ *string) { h.Del(HeaderTimestamp) }, ErrForged},
		"timestamp no time": {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, "yesterday") }, ErrForged},
		"huge timestamp":    {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, strings.Repeat("9", 40)) }, ErrForged},
		"no signature":      {func(h http.Header, _ *string) { h.Del(HeaderSignature) }, ErrForged},
		"wrong signature":   {func(h http.Header, _ *string) { h.Set(HeaderSignature, wrongSignature) }, ErrForged},
		"empty signature":   {func(h http.Header, _ *string) { h.Set(HeaderSignature, "v1,") }, ErrForged},
		"without version": {func(h http.Header, _ *string) {
			h.Set(HeaderSignature, strings.TrimPrefix(h.Get(HeaderSignature), "v1,"))
		}, ErrForged},
		"other version": {func(h http.Header, _ *string) {
			h.Set(HeaderSignature, strings.Replace(h.Get(HeaderSignature), "v1,", "v2,", 1))
		}, ErrForged},
		"among others": {func(h http.Header, _ *string) {
			h.Set(HeaderSignature, strings.Join([]string{wrongSignature, "v1a,x", h.Get(HeaderSignature), wrongSignature}, " "))
		}, nil},
		"among too many": {func(h http.Header, _ *string) {
			h.Set(HeaderSignature, strings.Repeat(wrongSignature+" ", maxSignatures)+h.Get(HeaderSignature))
		}, ErrForged},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWebhooks(t, exampleSecret)
			h, body := signed(t, w, time.Now()), exampleBody
			test.change(h, &body)
			id, err := w.Verify(h, []byte(body))
			if !errors.Is(err, test.want) || (err == nil) != (id == exampleID) {
				t.Errorf("id %q, err %v, want %v", id, err, test.want)
			}
			wellFormed := test.want == nil || slices.Contains([]string{"other body", "empty body", "other id", "later timestamp", "wrong signature"}, name)
			if err := CheckHeader(h); (err == nil) != wellFormed || err != nil && !errors.Is(err, ErrForged) {
				t.Errorf("the headers alone: %v", err)
			}
		})
	}
}

// The time of a webhook counts in both directions, and only once its signature was right.
func TestVerifyTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWebhooks(t, exampleSecret)
		for _, test := range []struct {
			at   time.Duration
			want error
		}{
			{-5*time.Minute - time.Second, ErrStale}, {-5 * time.Minute, nil}, {0, nil}, {5 * time.Minute, nil}, {5*time.Minute + time.Second, ErrStale},
		} {
			h := signed(t, w, time.Now().Add(test.at))
			fail.Unless(t, fail.Of(w.Verify(h, []byte(exampleBody))), test.want, "a webhook of %v", test.at)
			h.Set(HeaderSignature, wrongSignature)
			if _, err := w.Verify(h, []byte(exampleBody)); !errors.Is(err, ErrForged) || errors.Is(err, ErrStale) {
				t.Errorf("a forged webhook of %v: %v, want %v", test.at, err, ErrForged)
			}
		}
	})
}

// While a secret is replaced, sender and receiver may have the old one, the new one or both.
func TestRotation(t *testing.T) {
	older, newer, both := newWebhooks(t, exampleSecret), newWebhooks(t, otherSecret), newWebhooks(t, exampleSecret, otherSecret)
	for name, test := range map[string]struct {
		sender, receiver *Webhooks
		want             error
	}{
		"sender has both":       {both, newer, nil},
		"receiver has both":     {older, both, nil},
		"each has another one":  {older, newer, ErrForged},
		"both have both":        {both, both, nil},
		"receiver has the old":  {both, older, nil},
		"receiver is not ready": {newer, older, ErrForged},
	} {
		fail.Unless(t, fail.Of(test.receiver.Verify(signed(t, test.sender, time.Now()), []byte(exampleBody))), test.want, "%s", name)
	}
}

// A dot in an id would let a recorded webhook pass as another one: what is signed is id.timestamp.body.
func TestNoBorderCanBeMoved(t *testing.T) {
	w := newWebhooks(t, exampleSecret)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	h := http.Header{}
	fail.NowIf(t, w.Sign(h, "a", time.Now(), []byte(now+".body")))
	h.Set(HeaderID, "a."+h.Get(HeaderTimestamp))
	h.Set(HeaderTimestamp, now)
	fail.Unless(t, fail.Of(w.Verify(h, []byte("body"))), ErrForged, "the border was moved")
	fail.Unless(t, w.Sign(http.Header{}, "a.b", time.Now(), nil), ErrForged, "an id with a dot was signed")
}

func TestSecrets(t *testing.T) {
	key := func(n int) string { return SecretPrefix + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for name, test := range map[string]struct {
		secret string
		want   error
	}{
		"shortest":       {key(24), nil},
		"longest":        {key(64), nil},
		"too short":      {key(23), ErrSecret},
		"too long":       {key(65), ErrSecret},
		"without prefix": {strings.TrimPrefix(key(24), SecretPrefix), ErrSecret},
		"not base64":     {SecretPrefix + "secret!", ErrSecret},
		"empty":          {"", ErrSecret},
		"only a prefix":  {SecretPrefix, ErrSecret},
	} {
		_, err := NewWebhooks(test.secret)
		fail.Unless(t, err, test.want, "%s", name)
		if err != nil && len(test.secret) > len(SecretPrefix) && strings.Contains(err.Error(), strings.TrimPrefix(test.secret, SecretPrefix)) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
	fail.Unless(t, fail.Of(NewWebhooks()), ErrSecret, "without a secret")
}

// Only signed bytes are accepted, for arbitrary input.
func FuzzVerify(f *testing.F) {
	w := newWebhooks(f, exampleSecret, otherSecret)
	now := time.Now()
	right := signed(f, w, now)
	f.Add(exampleID, right.Get(HeaderTimestamp), right.Get(HeaderSignature), exampleBody)
	f.Add(exampleID, "1614265330", exampleSignature, exampleBody)
	f.Add("", "-1", "v1,,v1 v1,=", "{}")
	f.Add("a.b", "+1", " ", "")
	f.Fuzz(func(t *testing.T, id, timestamp, signature, body string) {
		h := http.Header{}
		h.Set(HeaderID, id)
		h.Set(HeaderTimestamp, timestamp)
		h.Set(HeaderSignature, signature)
		got, err := w.Verify(h, []byte(body))
		if err != nil {
			if !errors.Is(err, ErrForged) && !errors.Is(err, ErrStale) || got != "" {
				t.Errorf("id %q, err %v", got, err)
			}
			return
		}
		n, err := strconv.ParseInt(timestamp, 10, 64)
		fail.NowIf(t, err, "accepted with the timestamp %q", timestamp)
		again := http.Header{}
		fail.NowIf(t, w.Sign(again, id, time.Unix(n, 0), []byte(body)))
		for own := range strings.SplitSeq(again.Get(HeaderSignature), " ") {
			if strings.Contains(signature, own) {
				return
			}
		}
		t.Errorf("accepted without a signature: %q", signature)
	})
}
