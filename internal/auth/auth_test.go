package auth_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"seckill/internal/auth"
	"seckill/internal/testkit/fail"
)

const secret = "0123456789abcdef0123456789abcdef"

func newTokens(t testing.TB, now func() time.Time) *auth.Tokens {
	t.Helper()
	tokens, err := auth.NewTokens([]byte(secret), now)
	fail.NowIf(t, err)
	return tokens
}

// A token is accepted, at first and again from the cache, until it has expired by the clock of the verifier, which may
// be off.
func TestRoundTrip(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tokens := newTokens(t, func() time.Time { return now })
	want := func(what, token string, user int64) {
		t.Helper()
		if got, err := tokens.Verify(token); got != user || (user == 0) != errors.Is(err, auth.ErrToken) {
			t.Errorf("%s: Verify = %d, %v; want %d", what, got, err, user)
		}
	}
	var last string
	for _, id := range []int64{1, 42, math.MaxInt64} {
		token, err := tokens.Mint(id, time.Minute)
		fail.NowIf(t, err)
		want("at first", token, id)
		want("again", token, id)
		want("forged, while the real one is cached", token[:len(token)-2]+"AA", 0)
		last = token
	}
	fresh := newTokens(t, func() time.Time { return now })
	now = now.Add(time.Minute + auth.Leeway - time.Second)
	fail.If(t, fail.Of(fresh.Verify(last)), "within the leeway")
	now = now.Add(2 * time.Second)
	want("expired since it was cached", last, 0)
	fail.Unless(t, fail.Of(newTokens(t, func() time.Time { return now }).Verify(last)), auth.ErrToken, "after the leeway")
}

func TestVerifyRefuses(t *testing.T) {
	tokens := newTokens(t, nil)
	in := func(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(d)) }
	good := jwt.RegisteredClaims{Subject: "42", ExpiresAt: in(time.Hour)}
	sign := func(m jwt.SigningMethod, key any, c jwt.Claims) string {
		s, err := jwt.NewWithClaims(m, c).SignedString(key)
		fail.NowIf(t, err)
		return s
	}
	hs256 := func(c jwt.RegisteredClaims) string { return sign(jwt.SigningMethodHS256, []byte(secret), c) }
	withHeader := func(name string, value any) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, good)
		token.Header[name] = value
		s, err := token.SignedString([]byte(secret))
		fail.NowIf(t, err)
		return s
	}
	subject := func(s string) string { return hs256(jwt.RegisteredClaims{Subject: s, ExpiresAt: in(time.Hour)}) }

	fail.NowIf(t, fail.Of(tokens.Verify(hs256(good))), "the valid token that the others are derived from")
	both := jwt.MapClaims{"sub": "42", "SUB": "7", "exp": time.Now().Add(time.Hour).Unix()}
	if id, err := tokens.Verify(sign(jwt.SigningMethodHS256, []byte(secret), both)); id != 42 || err != nil {
		t.Errorf("a token with sub 42 and SUB 7: %d, %v; want 42", id, err)
	}
	fail.NowIf(t, fail.Of(tokens.Verify(withHeader("kid", "1"))), "a token with a harmless header")
	for name, token := range map[string]string{
		"crit":              withHeader("crit", []string{"exp"}),
		"crit, unknown":     withHeader("crit", []string{"https://example.com/half-price"}),
		"crit, empty":       withHeader("crit", []string{}),
		"crit, null":        withHeader("crit", nil),
		"crit, a string":    withHeader("crit", "exp"),
		"empty":             "",
		"not a token":       "hello",
		"two parts":         strings.Join(strings.Split(hs256(good), ".")[:2], "."),
		"no signature":      strings.TrimRight(hs256(good), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
		"alg none":          sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good),
		"HS384":             sign(jwt.SigningMethodHS384, []byte(secret), good),
		"HS512":             sign(jwt.SigningMethodHS512, []byte(secret), good),
		"another secret":    sign(jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), good),
		"no expiry":         hs256(jwt.RegisteredClaims{Subject: "42"}),
		"expired":           hs256(jwt.RegisteredClaims{Subject: "42", ExpiresAt: in(-time.Minute)}),
		"not yet valid":     hs256(jwt.RegisteredClaims{Subject: "42", ExpiresAt: in(time.Hour), NotBefore: in(time.Minute)}),
		"no subject":        subject(""),
		"subject a name":    subject("alice"),
		"subject zero":      subject("0"),
		"subject negative":  subject("-1"),
		"subject signed":    subject("+42"),
		"subject padded":    subject("042"),
		"subject spaced":    subject(" 42"),
		"subject past 2^63": subject("9223372036854775808"),
		"subject a float":   subject("4.2e1"),
		"subject a number":  sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": 42, "exp": time.Now().Add(time.Hour).Unix()}),
		"subject SUB":       sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"SUB": "42", "exp": time.Now().Add(time.Hour).Unix()}),
		"expiry Exp":        sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "42", "Exp": time.Now().Add(time.Hour).Unix()}),
		"subject \u017fub":  sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"\u017fub": "42", "exp": time.Now().Add(time.Hour).Unix()}),
		"expiry a string":   sign(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": "42", "exp": "never"}),
	} {
		if id, err := tokens.Verify(token); !errors.Is(err, auth.ErrToken) || id != 0 {
			t.Errorf("%s: Verify = %d, %v; want ErrToken", name, id, err)
		}
	}
}

func TestLimits(t *testing.T) {
	fail.Unless(t, fail.Of(auth.NewTokens([]byte(secret[1:]), nil)), auth.ErrSecret, "a secret of 31 bytes")
	tokens := newTokens(t, nil)
	for _, c := range []struct {
		user int64
		ttl  time.Duration
	}{{0, time.Minute}, {-1, time.Minute}, {1, 0}, {1, time.Second - 1}, {1, -time.Second}, {1, auth.MaxTTL + 1}} {
		fail.Unless(t, fail.Of(tokens.Mint(c.user, c.ttl)), auth.ErrMint, "Mint(%d, %v)", c.user, c.ttl)
	}
	for _, ttl := range []time.Duration{time.Second, auth.MaxTTL} {
		fail.If(t, fail.Of(tokens.Mint(1, ttl)), "Mint for %v", ttl)
	}
}

func TestVerifyConcurrently(t *testing.T) {
	tokens := newTokens(t, nil)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				user := int64(1 + (g+i)%20)
				token, err := tokens.Mint(user, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				if id, err := tokens.Verify(token); id != user || err != nil {
					t.Errorf("Verify = %d, %v; want %d", id, err, user)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkVerify(b *testing.B) {
	b.Run("first", func(b *testing.B) {
		tokens := newTokens(b, nil)
		minted := make([]string, 0, b.N)
		for i := range b.N {
			token, err := tokens.Mint(int64(i+1), time.Hour)
			fail.NowIf(b, err)
			minted = append(minted, token)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for _, token := range minted {
			fail.NowIf(b, fail.Of(tokens.Verify(token)))
		}
	})
	b.Run("again", func(b *testing.B) {
		tokens := newTokens(b, nil)
		token, err := tokens.Mint(42, time.Hour)
		fail.NowIf(b, err)
		b.ReportAllocs()
		for b.Loop() {
			fail.NowIf(b, fail.Of(tokens.Verify(token)))
		}
	})
}

// A secret that was given in the place of the path of its file is not in the error, and a path is.
func TestReadSecretShowsNoSecret(t *testing.T) {
	const misplaced = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	for path, shown := range map[string]bool{
		misplaced: false, "/" + misplaced: false, misplaced[:9] + "/" + misplaced[9:]: false, "./" + misplaced: false,
		filepath.Join(t.TempDir(), "no-such-file"): true, t.TempDir(): true,
	} {
		_, err := auth.ReadSecret(path)
		if err == nil || strings.Contains(err.Error(), path) != shown || !shown && strings.Contains(err.Error(), misplaced[9:]) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		secret: secret, secret + "\n": secret, secret + "\r\n": secret, "a\nb": "a\nb", strings.Repeat("x", 64<<10): strings.Repeat("x", 64<<10),
		"": "", "\n": "", strings.Repeat("x", 64<<10+1): "",
	} {
		fail.NowIf(t, os.WriteFile(path, []byte(text), 0o600))
		if got, err := auth.ReadSecret(path); got != want || (err == nil) != (want != "") {
			t.Errorf("a file of %d bytes: %.40q, %v; want %.40q", len(text), got, err, want)
		}
	}
}

// What an editor adds to a secret is named, and not taken for a part of it. A key of random bytes is taken as it is.
func TestSecretFilesOfEditors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	utf16 := func(order func(r rune) string) (text string) {
		for _, r := range secret + "\n" {
			text += order(r)
		}
		return text
	}
	little := utf16(func(r rune) string { return string(r) + "\x00" })
	for text, want := range map[string]string{
		"\ufeff" + secret + "\n": "byte order mark",
		"\xff\xfe" + little:      "is UTF-16",
		little:                   "is UTF-16",
		"\xfe\xff" + utf16(func(r rune) string { return "\x00" + string(r) }): "is UTF-16",
		secret + " \n":    "begins or ends with a blank",
		secret + "\t":     "begins or ends with a blank",
		secret + "\u00a0": "begins or ends with a blank",
		secret + "\n\n":   "empty line",
		secret + "\r\n\n": "empty line",
		"\n" + secret:     "empty line",
		secret + "\xff ":  "",
		"two words":       "",
	} {
		fail.NowIf(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := auth.ReadSecret(path)
		switch {
		case want == "" && (err != nil || got != text):
			t.Errorf("%.20q: %q, %v", text, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), secret)):
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}
