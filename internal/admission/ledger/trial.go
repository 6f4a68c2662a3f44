package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/redisscript"
)

//go:embed trial.lua
var trialSource string

// ErrForbidden means that a server refuses commands without which no order can be accepted: by its ACL, or because they
// are renamed.
var ErrForbidden = errors.New("admission: Redis refuses commands that the admission flow needs")

// Try tries the commands that the scripts and the consumers need, under keys and a channel with the prefix of the
// installation. The error is [ErrForbidden] and names the commands that are refused, or it is any other: a server that
// does not answer, or writes nothing at the moment, says nothing about what it permits.
func (l *Ledger) Try(ctx context.Context, prefix string) error {
	base := prefix + "adm:{trial-" + strconv.FormatUint(rand.Uint64(), 36) + "}"
	reply, err := l.run(ctx, redisscript.New(trialSource), redisscript.Args([]string{base, base + ":renamed", base + ":orders"}, base+":done"))
	switch {
	case redis.HasErrorPrefix(err, "NOPERM") || err != nil && redisscript.Answered(err) && !redisscript.Refused(err):
		return fmt.Errorf("%w: %w", ErrForbidden, err) // EVAL itself
	case err != nil:
		return err
	}
	var refused []string
	for i := 0; i+1 < len(reply); i += 2 {
		command, why := fmt.Sprint(reply[i]), fmt.Sprint(reply[i+1])
		switch {
		case strings.Contains(why, "NOGROUP") || strings.Contains(why, "no such key"):
			continue // because of another one that is refused
		case redisscript.Refused(refusal(why)) && !redis.HasErrorPrefix(refusal(why), "NOPERM"):
			return fmt.Errorf("try what Redis permits: %s: %s", command, why)
		}
		refused = append(refused, fmt.Sprintf("%s (%s)", command, why))
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w: %s", ErrForbidden, strings.Join(refused, ", "))
	}
	return nil
}

// refusal is an error with which the server refused a command of a script.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks a refusal as an error of go-redis.
func (refusal) RedisError() {}
