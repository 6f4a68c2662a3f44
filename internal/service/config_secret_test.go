package service

import (
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seckill/internal/payment"
	"seckill/internal/testkit/fail"
)

func TestGuessableSecrets(t *testing.T) {
	for _, weak := range []string{
		strings.Repeat("a", 32), strings.Repeat("abcd", 8), strings.Repeat("abcdefg", 5), strings.Repeat("correcthorse", 3)[:32],
		"changeme-changeme-please-changeme!", "Change_Me_9f8e7d6c5b4a39281706f5e4", "my-password-is-32-bytes-long-1234",
		"abcdefghijklmnopqrstuvwxyz012345", "zyxwvutsrqponmlkjihgfedcba987654", "your-jwt-secret-goes-right-in-here",
	} {
		if err := checkSecret(weak, minJWTSecret); err == nil || strings.Contains(err.Error(), weak) {
			t.Errorf("%q: %v", weak, err)
		}
	}
	draws := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		drawn := fmt.Sprintf("%016x", draws.Uint64())
		fail.If(t, checkSecret(drawn, minAdminToken), "%s", drawn)
	}
}

// A secret that is sent in a header has no bytes that cannot be sent there. Those of other secrets are free.
func TestSecretsInHeaders(t *testing.T) {
	const good = "7f3c9e0b51d84a26"
	for name, test := range map[string]struct{ secret, says string }{
		"leading space":     {" " + good, "begins or ends with a space"},
		"trailing space":    {good + " ", "begins or ends with a space"},
		"leading tab":       {"\t" + good, "control character, byte 1 of 17"},
		"newline":           {good + "\n", "control character, byte 17 of 17"},
		"carriage return":   {good + "\r", "control character, byte 17 of 17"},
		"newline inside":    {good + "\n" + good, "control character, byte 17 of 33"},
		"NUL":               {"\x00" + good, "control character, byte 1 of 17"},
		"unit separator":    {good + "\x1f" + good, "control character, byte 17 of 33"},
		"DEL":               {good + "\x7f", "control character, byte 17 of 17"},
		"plain":             {good, ""},
		"space inside":      {good + " " + good, ""},
		"punctuation":       {"!" + good + "~", ""},
		"beyond ASCII":      {good + "ß", ""},
		"short as well":     {"a\n", "too short"},
		"guessable as well": {strings.Repeat("a", 20) + "\n", "guessed"},
	} {
		for _, setting := range []string{"SECKILL_ADMIN_TOKEN", "SECKILL_PAYMENT_API_KEY"} {
			env := provided(setting + "=" + test.secret)
			_, err := ParseConfig(nil, env, io.Discard)
			switch {
			case test.says == "":
				fail.If(t, err, "%s, %s", setting, name)
			case err == nil || !strings.HasPrefix(err.Error(), setting) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), test.secret):
				t.Errorf("%s, %s: %v", setting, name, err)
			}
		}
	}
	// A file may end with one newline.
	for end, fails := range map[string]bool{"\n": false, "\r\n": false, "\n\n": true} {
		path := filepath.Join(t.TempDir(), "token")
		fail.NowIf(t, os.WriteFile(path, []byte(token+end), 0o600))
		env := slices.DeleteFunc(production(), func(kv string) bool { return strings.HasPrefix(kv, "SECKILL_ADMIN_TOKEN=") })
		_, err := ParseConfig(nil, append(env, "SECKILL_ADMIN_TOKEN_FILE="+path), io.Discard)
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), "at most one newline") {
			t.Errorf("a file that ends with %q: %v", end, err)
		}
	}
	fail.If(t, fail.Of(ParseConfig(nil, production("SECKILL_JWT_SECRET= "+secret+"\n", "SECKILL_REDIS_PASSWORD= two words "), io.Discard)))
}

func TestSecretsAreDistinct(t *testing.T) {
	for name, change := range map[string]string{
		"SECKILL_JWT_SECRET":                "SECKILL_ADMIN_TOKEN=" + secret,
		"SECKILL_REDIS_PASSWORD":            "SECKILL_REDIS_PASSWORD=" + token,
		"the password in SECKILL_MYSQL_DSN": "SECKILL_MYSQL_DSN=seckill:" + token + "@tcp(127.0.0.1:3306)/seckill",
	} {
		_, err := ParseConfig(nil, production(change), io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "SECKILL_ADMIN_TOKEN is the same as "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The provider knows the webhooks' secret, and must not be able to issue tokens with it.
	for _, shared := range []string{webhookSecret, strings.TrimPrefix(webhookSecret, payment.SecretPrefix)} {
		_, err := ParseConfig(nil, provided("SECKILL_JWT_SECRET="+shared), io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "SECKILL_JWT_SECRET is the same as ") || !strings.Contains(err.Error(), "SECKILL_PAYMENT_WEBHOOK_SECRET") {
			t.Errorf("%s: %v", shared, err)
		}
	}
}

// provided is the environment of a server with a payment provider, changed.
func provided(changes ...string) []string {
	return production(append([]string{"SECKILL_PAYMENT_URL=https://provider", "SECKILL_PAYMENT_API_KEY=7f3c9e0b51d84a26x", "SECKILL_PAYMENT_WEBHOOK_SECRET=" + webhookSecret}, changes...)...)
}

func TestGuessableWebhookSecrets(t *testing.T) {
	inBase64 := func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }
	for _, encoded := range []string{
		inBase64(strings.Repeat("a", 24)), inBase64(strings.Repeat("abcdefgh", 4)), inBase64("changeme-changeme-please-changeme!"),
		"changemechangemechangemechangeme", // which is base64 of what looks random
	} {
		weak := payment.SecretPrefix + encoded
		for _, setting := range []string{weak, webhookSecret + " " + weak} {
			_, err := ParseConfig(nil, provided("SECKILL_PAYMENT_WEBHOOK_SECRET="+setting), io.Discard)
			if err == nil || !strings.Contains(err.Error(), "SECKILL_PAYMENT_WEBHOOK_SECRET") || !strings.Contains(err.Error(), "guessed") || strings.Contains(err.Error(), weak) {
				t.Errorf("%s: %v", setting, err)
			}
		}
	}
}

// No error about an address shows a password in it.
func TestAddressesDoNotShowPasswords(t *testing.T) {
	const password = "hush,hush"
	for _, setting := range []string{"SECKILL_REDIS_ADDRS", "SECKILL_LOCK_REDIS_ADDRS", "SECKILL_ZOOKEEPER_ADDRS", "SECKILL_ADDR", "SECKILL_DEBUG_ADDR"} {
		for _, value := range []string{"host:6379,password=" + password + ",ssl=true", "redis://:" + password + "@host:6379", "redis://host:6379/" + password, password + "@host:6379", "a:1,user:" + password + "@host:1"} {
			_, err := ParseConfig(nil, production(setting+"="+value), io.Discard)
			if err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "host:port") || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s=%s: %v", setting, value, err)
			}
		}
	}
}

// A password in the place of a port, a host or a whole address is not shown either.
func TestAddressesDoNotShowWhatIsNoAddress(t *testing.T) {
	const password = "hunter2"
	for _, flag := range []string{"redis-addrs", "lock-redis-addrs", "zookeeper-addrs", "addr", "debug-addr", "payment-url"} {
		for _, value := range []string{
			"host:" + password, "host:" + password + ":6379", "host:6379:" + password, ":" + password, password, password + ":",
			"host:6379 " + password, "a:1,host:" + password, "host:0" + password, "[" + password, "host:70000" + password, "user:" + password + "/db",
		} {
			variable := setting{name: flag}.env()
			for source, parse := range map[string]func() (Config, error){
				variable:   func() (Config, error) { return ParseConfig(nil, production(variable+"="+value), io.Discard) },
				"-" + flag: func() (Config, error) { return ParseConfig([]string{"-" + flag, value}, production(), io.Discard) },
			} {
				_, err := parse()
				if err == nil || !strings.HasPrefix(err.Error(), source+": ") || strings.Contains(err.Error(), password) {
					t.Errorf("%s=%s: %v", source, value, err)
				}
			}
		}
	}
	for _, value := range []string{"user:" + password + "@host", "http://me:" + password + "@host", "host,user:" + password, "host,password=" + password} {
		_, err := ParseConfig(nil, production("SECKILL_LAB_HOSTS="+value), io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "SECKILL_LAB_HOSTS: name ") || strings.Contains(err.Error(), password) {
			t.Errorf("SECKILL_LAB_HOSTS=%s: %v", value, err)
		}
	}
	var c sandboxCommand
	for _, args := range [][]string{
		{"-listen", "host:" + password}, {"-webhook-url", "http://me:" + password + "@host/"}, {"-public-url", "host:" + password},
	} {
		env := []string{"SECKILL_PAYMENT_API_KEY=" + paymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET=" + webhookSecret}
		if _, err := c.parse(args, env, io.Discard); err == nil || !strings.Contains(err.Error(), args[0]) || strings.Contains(err.Error(), password) {
			t.Errorf("%v: %v", args, err)
		}
		c = sandboxCommand{}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		fail.NowIf(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	args := []string{"-jwt-secret-file", write("jwt", secret+"\n")}
	env := []string{
		"SECKILL_REDIS_ADDRS=a:1", "SECKILL_MYSQL_DSN_FILE=" + write("dsn", dsn),
		"SECKILL_ADMIN_TOKEN_FILE=" + write("admin", token+"\r\n"), "SECKILL_REDIS_PASSWORD_FILE=" + write("redis", "two words\n"),
	}
	c, err := ParseConfig(args, env, io.Discard)
	fail.NowIf(t, err)
	if c.JWTSecret != secret || c.AdminToken != token || c.MySQLDSN != dsn || c.RedisPassword != "two words" || len(c.Unknown) != 0 {
		t.Errorf("%+v", c)
	}
	for name, test := range map[string]struct {
		args, env []string
		says      []string
	}{
		"both":        {args, production(), []string{"-jwt-secret-file", "SECKILL_JWT_SECRET"}},
		"no file":     {nil, append(env, "SECKILL_JWT_SECRET_FILE=/etc/no-such-jwt"), []string{"SECKILL_JWT_SECRET_FILE", "/etc/no-such-jwt"}},
		"empty file":  {nil, append(env, "SECKILL_JWT_SECRET_FILE="+write("empty", "\n")), []string{"SECKILL_JWT_SECRET_FILE", "empty"}},
		"weak secret": {nil, append(env, "SECKILL_JWT_SECRET_FILE="+write("weak", strings.Repeat("x", 40))), []string{"SECKILL_JWT_SECRET_FILE", "guessed"}},
		"a folder":    {[]string{"-jwt-secret-file", t.TempDir()}, env, []string{"-jwt-secret-file"}},
	} {
		_, err := ParseConfig(test.args, test.env, io.Discard)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, said := range test.says {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%s: %q does not say %q", name, err, said)
			}
		}
	}
}

// An argument may be a setting whose flag was forgotten.
func TestUnexpectedArgumentsDoNotShowPasswords(t *testing.T) {
	for argument, shown := range map[string]bool{"serve": true, "root:hunter2@tcp(db:3306)/x": false, "redis://:hunter2@db": false} {
		_, err := ParseConfig([]string{argument}, production(), io.Discard)
		if err == nil || strings.Contains(err.Error(), argument) != shown || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", argument, err)
		}
	}
}

// A secret in the place of the path of its file, or of another setting, is not shown.
func TestMisplacedSecretsAreNotShown(t *testing.T) {
	for _, misplaced := range []string{"SECKILL_JWT_SECRET_FILE=" + secret, "SECKILL_LOG_LEVEL=root:" + secret + "@tcp(db:3306)/x"} {
		name, _, _ := strings.Cut(misplaced, "=")
		_, err := ParseConfig(nil, production(misplaced), io.Discard)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Secrets that were given as flags are not shown by /debug/pprof/cmdline.
func TestCommandLineHidesSecrets(t *testing.T) {
	args := []string{"api", "-mysql-dsn", dsn, "-jwt-secret=" + secret + "=", "-jwt-secret", secret, "--admin-token", token, "--redis-password=hush", "-addr", ":1",
		"-lab", "-jwt-secret-file", "/run/secret", "-admin-token"}
	shown := strings.Join(hide(args), " ")
	if want := "api -mysql-dsn (hidden) -jwt-secret=(hidden) -jwt-secret (hidden) --admin-token (hidden) --redis-password=(hidden) -addr :1 " +
		"-lab -jwt-secret-file /run/secret -admin-token"; shown != want {
		t.Errorf("%s, want %s", shown, want)
	}
}
