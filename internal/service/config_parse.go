package service

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"seckill/internal/auth"
)

// setting is one flag and the environment variable of the same name.
type setting struct {
	name, arg, usage string
	secret           bool
	// address: a password may stand in the value by mistake, so errors do not show it.
	address bool
	set     func(c *Config, value string) error
}

// env returns the name of the environment variable: SECKILL_ADDR for -addr.
func (s setting) env() string {
	return "SECKILL_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// envFile returns the name of the variable for a file with the secret: SECKILL_JWT_SECRET_FILE.
func (s setting) envFile() string { return s.env() + "_FILE" }

// parseSettings parses the flags, including those that a command has defined already, and reads the environment for the
// settings without a flag. Every error names the setting as its user wrote it, and none shows a secret.
func parseSettings(flags *flag.FlagSet, args, environ []string, help io.Writer) (Config, error) {
	c := Config{Bounds: defaultBounds(),
		Addr: "127.0.0.1:8080", IDs: idsSonyflake, ShutdownTimeout: defaultShutdownTimeout, IdleTimeout: defaultIdleTimeout,
		UserLookups: defaultUserLookups, UserKeys: defaultUserKeys, UserCancels: defaultUserCancels, Payment: paymentConfig{Currency: defaultCurrency},
	}
	all := settings()
	flags.SetOutput(io.Discard)
	flags.Usage = func() { usage(help, all) }
	given := map[string]string{}
	for _, s := range all {
		note := func(v string) error { given[s.name] = v; return nil }
		if s.arg == "" { // a boolean flag: -lab alone means on
			flags.BoolFunc(s.name, s.usage, note)
		} else {
			flags.Func(s.name, s.usage, note)
		}
		if s.secret {
			flags.Func(s.name+fileSuffix, s.usage, func(v string) error { given[s.name+fileSuffix] = v; return nil })
		}
	}
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	switch first := len(args) - flags.NArg(); {
	case flags.NArg() > 0 && first == 0 && !withCredentials(args[0]):
		return c, fmt.Errorf("unexpected argument %q; try -help", args[0])
	case flags.NArg() > 0: // not shown: it may be a secret, or the second word of one before it
		return c, fmt.Errorf("argument %d is unexpected; try -help", first+1)
	}

	env := environment(environ)
	isSet := map[string]bool{}
	for _, s := range all {
		value, source, err := s.find(given, env)
		if err != nil {
			return c, err
		}
		if value == "" {
			continue
		}
		if err := s.set(&c, value); err != nil {
			if s.secret || s.address || withCredentials(value) {
				return c, fmt.Errorf("%s: %w", source, err)
			}
			return c, fmt.Errorf("%s is %q: %w", source, value, err)
		}
		isSet[s.name] = true
	}
	c.Traces = takeTraces(env)
	for name := range env {
		c.Unknown = append(c.Unknown, name)
	}
	slices.Sort(c.Unknown)

	c.Embedded = c.MySQLDSN == "" && len(c.RedisAddrs) == 0
	if c.Embedded && !isSet["lab"] {
		c.Lab = true
	}
	if !c.Embedded && !isSet["shutdown-delay"] {
		c.ShutdownDelay = defaultShutdownDelay
	}
	if c.Embedded && !isSet["log-level"] {
		c.LogLevel = slog.LevelWarn
	}
	return c, nil
}

// find returns the value of a setting, "" if it is not set, and its name as the user wrote it. It removes the setting's
// variables from env.
func (s setting) find(given, env map[string]string) (value, source string, err error) {
	of := func(name, variable string) (value, source string, err error) {
		defer delete(env, variable)
		value, asFlag := given[name]
		if asFlag && value == "" {
			return "", "", fmt.Errorf("-%s is empty", name)
		}
		if asFlag {
			return value, "-" + name, nil
		}
		return env[variable], variable, nil
	}
	value, source, err = of(s.name, s.env())
	if err != nil || !s.secret {
		return value, source, err
	}
	path, file, err := of(s.name+fileSuffix, s.envFile())
	switch {
	case err != nil || path == "":
		return value, source, err
	case value != "":
		return "", "", fmt.Errorf("%s and %s are both given: want one of them", source, file)
	}
	if value, err = auth.ReadSecret(path); err != nil {
		return "", "", fmt.Errorf("%s: %w", file, err)
	}
	return value, file, nil
}

func usage(w io.Writer, all []setting) {
	fmt.Fprint(w, `api serves the flash sale.

usage: api [flags]               serve until interrupted
       api healthcheck [flags]   ask a running server whether it is ready; exit code 0 or 1
       api reconcile [-json] [-dead] [-voucher ID] [flags]
                                 compare what Redis and the database have of each voucher that is sold by
                                 admission; exit code 0 when all balance, 1 when not or when it is not known.
                                 With -dead also the orders that were accepted and rejected: how many the
                                 database has, which is the record, and why, the latest of each voucher, as
                                 far as Redis still has it
       api adopt [flags]         make the database and Redis that are configured a pair, after a restore or a move that
                                 the service refuses: it waits until no instance uses one of them
       api draw SEED DRAWN NUMBER
                                 print the position of a ticket in the draw of a waiting room, from what the room has told
       api payment-sandbox [-listen host:port] [-webhook-url URL] [-public-url URL] [-file FILE]
                           [-behaviour JSON] [flags]
                                 serve a payment provider that moves no money, for SECKILL_PAYMENT_URL; needs
                                 SECKILL_PAYMENT_API_KEY and SECKILL_PAYMENT_WEBHOOK_SECRET
       api -version              print the version, the commit and the Go that built it

Each flag can be given as an environment variable instead. With neither a
database nor Redis the service runs embedded, with SQLite and an in-process
Redis, in lab mode, on loopback.

A secret can be read from a file instead: SECKILL_JWT_SECRET_FILE, or -jwt-secret-file, is the path.
A newline at its end is cut off. Giving the secret and its file is an error.
A secret that is given as a flag can be seen by everybody who sees the process (ps).

OTEL_EXPORTER_OTLP_ENDPOINT, http://host:4318 for instance, has traces sent there, to /v1/traces.
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is the whole URL instead, and wins.

`)
	for _, s := range all {
		variables := s.env()
		if s.secret {
			variables += " or " + s.envFile()
		}
		fmt.Fprintf(w, "  %s\n        %s\n        %s\n", strings.TrimSpace("-"+s.name+" "+s.arg), variables, s.usage)
	}
}

// environment returns the variables of this program, without those of its tests.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST_") || name == tracesEndpoint || name == tracesURL {
			env[name] = value
		}
	}
	return env
}
