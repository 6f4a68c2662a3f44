package service

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/payment"
)

// fileSuffix, appended to the name of a secret, is the setting for a file with the secret: -jwt-secret-file,
// SECKILL_JWT_SECRET_FILE.
const fileSuffix = "-file"

// checkSecret refuses secrets that are short or easily guessed. It refuses fewer than one in a million random
// hexadecimal secrets.
func checkSecret(secret string, shortest int) error {
	if len(secret) < shortest {
		return fmt.Errorf("too short: %d bytes, at least %d", len(secret), shortest)
	}
	if why := guessable(secret); why != "" {
		return fmt.Errorf("easily guessed: %s; generate one, with openssl rand -hex 32 for instance", why)
	}
	return nil
}

// checkHeaderSecret is [checkSecret] for a secret that is sent in a header. It also refuses the characters that a
// header cannot carry (RFC 9110 §5.5), and the tab: no client could send such a secret.
func checkHeaderSecret(secret string, shortest int) error {
	if err := checkSecret(secret, shortest); err != nil {
		return err
	}
	for i := range len(secret) {
		if secret[i] < ' ' || secret[i] == 0x7f {
			return fmt.Errorf("a header cannot carry it: it has a control character, byte %d of %d; "+
				"a file has at most one newline, at its end, and printf %%s writes none", i+1, len(secret))
		}
	}
	if strings.Trim(secret, " ") != secret {
		return errors.New("a header cannot carry it: it begins or ends with a space; remove the space")
	}
	return nil
}

// minDistinct is the minimum number of different bytes in a secret.
const minDistinct = 5

// guessable returns why a secret is easily guessed, without showing it; "" if it is not.
func guessable(secret string) string {
	plain := strings.NewReplacer("-", "", "_", "", " ", "", ".", "").Replace(strings.ToLower(secret))
	for _, placeholder := range []string{"changeme", "changethis", "changeit", "replaceme", "replacethis", "placeholder",
		"yoursecret", "yourjwtsecret", "yourtoken", "youradmintoken", "topsecret", "supersecret", "password", "example", "insecure", "letmein"} {
		if strings.Contains(plain, placeholder) {
			return "it looks like a placeholder"
		}
	}
	distinct := map[byte]bool{}
	steps := map[int]int{}
	for i := range len(secret) {
		distinct[secret[i]] = true
		if i > 0 {
			steps[int(secret[i])-int(secret[i-1])]++
		}
	}
	switch {
	case len(distinct) < minDistinct:
		return fmt.Sprintf("it has only %d different characters", len(distinct))
	case repeats(secret):
		return "it repeats itself"
	case max(steps[0], steps[1], steps[-1]) > len(secret)/2: // abcdefgh…, 98765432…
		return "its characters follow each other"
	}
	return ""
}

// repeats reports whether a text consists of repetitions of a shorter text.
func repeats(text string) bool {
	for n := 1; n <= len(text)/2; n++ {
		if strings.HasPrefix(text[n:], text[:len(text)-n]) {
			return true
		}
	}
	return false
}

// checkDistinct refuses a secret that is used for two purposes: knowing one secret must not reveal another.
func (c *Config) checkDistinct() error {
	type named struct{ name, value string }
	all := []named{
		{"SECKILL_ADMIN_TOKEN", c.AdminToken}, {"SECKILL_JWT_SECRET", c.JWTSecret}, {"SECKILL_REDIS_PASSWORD", c.RedisPassword},
		{"SECKILL_PAYMENT_API_KEY", c.Payment.APIKey},
	}
	for _, webhook := range c.Payment.WebhookSecrets {
		all = append(all, named{"SECKILL_PAYMENT_WEBHOOK_SECRET", webhook},
			named{"the key in SECKILL_PAYMENT_WEBHOOK_SECRET", strings.TrimPrefix(webhook, payment.SecretPrefix)})
	}
	if dsn, err := mysql.ParseDSN(c.MySQLDSN); err == nil { // else it is refused later
		all = append(all, named{"the password in SECKILL_MYSQL_DSN", dsn.Passwd})
	}
	for i, one := range all[:2] { // the two stores may share a password
		for _, other := range all[i+1:] {
			if one.value != "" && one.value == other.value {
				return fmt.Errorf("%s is the same as %s: generate another one, with openssl rand -hex 32 for instance", one.name, other.name)
			}
		}
	}
	return nil
}

// checkWebhookSecret is [checkSecret] for a webhook's secret. Neither its key nor the base64 of that may be guessable.
func checkWebhookSecret(secret string) error {
	key, err := payment.SecretKey(secret)
	if err != nil {
		return err
	}
	for _, text := range []string{strings.TrimPrefix(secret, payment.SecretPrefix), string(key)} {
		if why := guessable(text); why != "" {
			return fmt.Errorf("easily guessed: %s; generate one, with echo %s$(openssl rand -base64 32) for instance", why, payment.SecretPrefix)
		}
	}
	return nil
}

// errURL is the error for a value that is not shown, since it may contain a password.
var errURL = errors.New("want host:port, without a scheme, a user and options; the password of Redis goes into SECKILL_REDIS_PASSWORD")

// withCredentials reports whether a value may contain a password: a URL, user@host, or an address with options such as
// host:6379,password=….
func withCredentials(value string) bool {
	return strings.ContainsAny(value, "@=") || strings.Contains(value, "://")
}

// hide replaces the values of all flags with secrets in a command line, also of those that a later one overrides.
func hide(commandLine []string) []string {
	const hidden = "(hidden)"
	secret := map[string]bool{}
	for _, s := range settings() {
		secret[s.name] = s.secret
	}
	shown := slices.Clone(commandLine)
	for i, arg := range commandLine {
		flag, isFlag := strings.CutPrefix(arg, "-")
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
		switch {
		case !isFlag || !secret[name]:
		case value != "":
			shown[i] = strings.TrimSuffix(arg, value) + hidden
		case i+1 < len(shown):
			shown[i+1] = hidden
		}
	}
	return shown
}
