package service

import (
	"io"
	"strings"
	"testing"
)

// Several installations share one Redis by database number or by prefix.
func TestWhereTheKeysAre(t *testing.T) {
	t.Parallel()
	stores := []string{"SECKILL_MYSQL_DSN=user:a password@tcp(db:3306)/seckill", "SECKILL_REDIS_ADDRS=redis:6379"}
	parse := func(more ...string) (Config, error) {
		return (&reconcileCommand{}).parse(nil, append(more, stores...), io.Discard)
	}
	c, err := parse("SECKILL_REDIS_DB=3", "SECKILL_KEY_PREFIX=shop-2:")
	if err != nil || c.RedisDB != 3 || c.keyPrefix() != "shop-2:" || c.redisName() != "redis:6379/3 shop-2:" {
		t.Errorf("%q, %v", c.redisName(), err)
	}
	if c, err := parse(); err != nil || c.keyPrefix() != KeyPrefix || c.redisName() != "redis:6379/0 seckill:" {
		t.Errorf("%q, %v", c.redisName(), err)
	}
	for setting, why := range map[string]string{
		"SECKILL_REDIS_DB=-1":        "want a number from 0",
		"SECKILL_REDIS_DB=x":         "want a number from 0",
		"SECKILL_KEY_PREFIX={shop}:": "letters, digits",
		"SECKILL_KEY_PREFIX=a b":     "letters, digits",
		"SECKILL_KEY_PREFIX=*":       "letters, digits",
	} {
		if _, err := parse(setting); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	cluster := Config{MySQLDSN: "d", RedisAddrs: []string{"a:1", "b:2"}, RedisDB: 1}
	if err := cluster.validate(); err == nil || !strings.Contains(err.Error(), "SECKILL_KEY_PREFIX") {
		t.Errorf("a cluster with a number: %v", err)
	}
}
