package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"seckill/internal/auth"
)

// secretEnv is the secret with which the service verifies tokens. It is not a flag, because every user of the machine
// can read command lines.
const secretEnv = "SECKILL_JWT_SECRET"

// secretFileEnv is the path of a file with it.
const secretFileEnv = secretEnv + "_FILE"

func tokensHelp(w io.Writer) {
	fmt.Fprintf(w, `lab tokens makes the identities of many buyers, one after the other.

usage: lab tokens --users N [flags]

  --users N         how many buyers
  --first-user ID   the first one's user id; the others follow (default 1)
  --format FORMAT   jwt     one token per line (default)
                    k6      one JSON array, for the TOKENS of loadtest/seckill.js
                    vegeta  one JSON target per line, each an order of --voucher
  --voucher ID      the voucher to order (vegeta)
  --base-url URL    where the service is (vegeta; default http://127.0.0.1:8080);
                    several, repeated or separated by commas, are used in turn
  --ttl DURATION    how long a token is good for, at most %s (default 1h)
  --output FILE     write there, readable by you alone, and not to standard output; a
                    folder that is missing is created; short: -o

The secret is the service's own and comes from the environment: %s, at
least %d bytes, or a file whose path is %s. Without it vegeta
targets carry X-User-ID, which a service in lab mode believes; the other formats
need it.

With vegeta:

  lab tokens --users 2000 --format vegeta --voucher ID -o loadtest/out/targets.jsonl
  vegeta attack -format=json -targets=loadtest/out/targets.jsonl -rate=2000/1s -duration=1s | vegeta report

Let rate times duration be the number of buyers: vegeta sends about that many
requests, and begins again at the first target when the file has ended. With -lazy
it ends there.
`, hours(auth.MaxTTL), secretEnv, auth.MinSecret, secretFileEnv)
}

// request is a parsed call of lab tokens.
type request struct {
	users, first int64
	format       string
	voucher      int64
	baseURLs     []string
	ttl          time.Duration
	output       string
}

func tokens(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	req, err := parseTokens(args)
	if err != nil {
		return err
	}
	secret, err := tokenSecret()
	if err != nil {
		return err
	}
	identify, err := identities(req, secret, stderr)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return writeBuyers(ctx, w, req, identify) }
	if req.output == "" {
		return write(stdout)
	}
	return writeFile(req.output, write)
}

// tokenSecret returns the secret that the environment has, or that is in the file that it names; "" if there is none.
func tokenSecret() (string, error) {
	secret, path := os.Getenv(secretEnv), os.Getenv(secretFileEnv)
	switch {
	case path == "":
		return secret, nil
	case secret != "":
		return "", usagef("%s and %s are both given: want one of them", secretEnv, secretFileEnv)
	}
	secret, err := auth.ReadSecret(path)
	if err != nil {
		return "", usagef("%s: %v", secretFileEnv, err)
	}
	return secret, nil
}

func parseTokens(args []string) (request, error) {
	req := request{first: 1, format: "jwt", ttl: time.Hour}
	var voucher string
	flags := flag.NewFlagSet("tokens", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Int64Var(&req.users, "users", 0, "")
	flags.Int64Var(&req.first, "first-user", req.first, "")
	flags.StringVar(&req.format, "format", req.format, "")
	flags.StringVar(&voucher, "voucher", "", "")
	flags.DurationVar(&req.ttl, "ttl", req.ttl, "")
	flags.StringVar(&req.output, "output", "", "")
	flags.StringVar(&req.output, "o", "", "")
	flags.Func("base-url", "", func(v string) error {
		for part := range strings.SplitSeq(v, ",") {
			base, err := checkBaseURL(part)
			if err != nil {
				return err
			}
			req.baseURLs = append(req.baseURLs, base)
		}
		return nil
	})
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return req, errHelp
	} else if err != nil {
		return req, usagef("%v", err)
	}
	if flags.NArg() > 0 {
		return req, usagef("unexpected argument %q", flags.Arg(0))
	}
	return req, req.complete(voucher)
}

// complete checks the flags together and fills in what follows from them.
func (r *request) complete(voucher string) error {
	switch {
	case r.users < 1:
		return usagef("--users is %d; at least 1", r.users)
	case r.first < 1:
		return usagef("--first-user is %d; at least 1", r.first)
	case r.first > math.MaxInt64-r.users+1:
		return usagef("--first-user %d and --users %d go beyond the largest user id, %d", r.first, r.users, int64(math.MaxInt64))
	case r.ttl < time.Second || r.ttl > auth.MaxTTL:
		return usagef("--ttl is %v; 1s to %s", r.ttl, hours(auth.MaxTTL))
	}
	switch r.format {
	case "jwt", "k6":
		if voucher != "" || len(r.baseURLs) > 0 {
			return usagef("--voucher and --base-url go with --format vegeta, not %s", r.format)
		}
		return nil
	case "vegeta":
	default:
		return usagef("--format is %q; jwt, k6 or vegeta", r.format)
	}
	id, err := strconv.ParseInt(voucher, 10, 64)
	if voucher == "" {
		return usagef("--format vegeta needs --voucher")
	} else if err != nil || id < 1 {
		return usagef("--voucher is %q; a positive number", voucher)
	}
	r.voucher = id
	if len(r.baseURLs) == 0 {
		r.baseURLs = []string{"http://127.0.0.1:8080"}
	}
	return nil
}

func checkBaseURL(s string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return "", err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("want http://host:port")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// identity is the header that identifies a buyer to the service.
type identity struct{ header, value string }

// identities returns how to identify buyers: by tokens if there is a secret; otherwise, if the format allows it, by
// user ids.
func identities(req request, secret string, stderr io.Writer) (func(user int64) (identity, error), error) {
	if secret == "" {
		if req.format != "vegeta" {
			return nil, usagef("%s is not set, and --format %s is made of tokens; a service in lab mode needs none, it takes X-User-ID", secretEnv, req.format)
		}
		fmt.Fprintf(stderr, "lab tokens: %s is not set: the targets carry X-User-ID, which only a service in lab mode believes\n", secretEnv)
		return func(user int64) (identity, error) {
			return identity{"X-User-ID", strconv.FormatInt(user, 10)}, nil
		}, nil
	}
	minter, err := auth.NewTokens([]byte(secret), time.Now)
	if err != nil {
		return nil, usagef("%s: %v", secretEnv, err)
	}
	return func(user int64) (identity, error) {
		token, err := minter.Mint(user, req.ttl)
		return identity{"Authorization", "Bearer " + token}, err
	}, nil
}

// writeBuyers writes one buyer at a time, so that a million buyers need little memory.
func writeBuyers(ctx context.Context, w io.Writer, req request, identify func(int64) (identity, error)) error {
	out := bufio.NewWriterSize(w, 1<<16)
	f := newFormat(req)
	_, _ = out.WriteString(f.open) // bufio keeps the first error for Flush
	for i := range req.users {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped after %d of %d buyers: %w", i, req.users, err)
		}
		who, err := identify(req.first + i)
		if err != nil {
			return err
		}
		line, err := f.line(i, who)
		if err != nil {
			return err
		}
		if i > 0 {
			_, _ = out.WriteString(f.between)
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	_, _ = out.WriteString(f.close)
	return out.Flush()
}

// writeFile writes the whole file or leaves the old one, and creates its folder if necessary. Tokens are credentials:
// only the owner can read the file and a new folder.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("--output %s is not a file", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".lab-tokens-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func hours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// format is an output format for buyers: what comes first, between two of them and last, and one buyer.
type format struct {
	open, between, close string
	line                 func(i int64, who identity) ([]byte, error)
}

func newFormat(req request) format {
	switch req.format {
	case "k6":
		return format{open: "[\n", between: ",\n", close: "\n]\n", line: func(_ int64, who identity) ([]byte, error) {
			return json.Marshal(who.token())
		}}
	case "vegeta":
		return format{between: "\n", close: "\n", line: func(i int64, who identity) ([]byte, error) {
			return json.Marshal(newTarget(req, i, who))
		}}
	}
	return format{between: "\n", close: "\n", line: func(_ int64, who identity) ([]byte, error) {
		return []byte(who.token()), nil
	}}
}

func (w identity) token() string { return strings.TrimPrefix(w.value, "Bearer ") }

// target is one request in vegeta's JSON format (see its target.schema.json): method and url are required, each header
// has a list of values. A body would be base64; an order has none.
type target struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header"`
}

func newTarget(req request, i int64, who identity) target {
	base := req.baseURLs[i%int64(len(req.baseURLs))]
	return target{
		Method: "POST",
		URL:    fmt.Sprintf("%s/api/v1/vouchers/%d/orders", base, req.voucher),
		Header: map[string][]string{who.header: {who.value}},
	}
}
