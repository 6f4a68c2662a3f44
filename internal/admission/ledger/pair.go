package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/pairing"
	"seckill/internal/redisscript"
)

//go:embed pair.lua
var pairSource string

// Pair is Redis' side of the pair of a database and its Redis.
type Pair struct {
	ledger *Ledger
	key    string
	move   *redisscript.Script
}

var _ pairing.Redis = (*Pair)(nil)

// NewPair returns the pair of an installation.
func NewPair(client Client, prefix string) *Pair {
	return &Pair{ledger: New(client, Options{}), key: prefix + "pair", move: redisscript.New(pairSource)}
}

// Pair implements [pairing.Redis].
func (p *Pair) Pair(ctx context.Context) (pairing.Record, error) {
	read := redis.NewSliceCmd(ctx, "hmget", p.key, "generation", "mark", "database")
	if err := p.ledger.client.Process(ctx, read); err != nil {
		return pairing.Record{}, err
	}
	values := read.Val()
	if len(values) != 3 {
		return pairing.Record{}, unexpected(values)
	}
	var r pairing.Record
	generation, there := values[0].(string)
	r.Mark, _ = values[1].(string)
	r.Partner, _ = values[2].(string)
	if !there || r.Mark == "" {
		return pairing.Record{}, nil
	}
	var err error
	if r.Generation, err = strconv.ParseInt(generation, 10, 64); err != nil || r.Generation < 0 || r.Generation > MaxNumber {
		return pairing.Record{}, errors.Join(unexpected(values), err)
	}
	return r, nil
}

// MovePair implements [pairing.Redis].
func (p *Pair) MovePair(ctx context.Context, from, to pairing.Record) (bool, error) {
	generation := ""
	if from.Mark != "" {
		generation = strconv.FormatInt(from.Generation, 10)
	}
	n, err := number(p.ledger.run(ctx, p.move, []any{"", "", 1, p.key, generation, from.Mark, to.Generation, to.Mark, to.Partner}))
	return n == 1, err
}
