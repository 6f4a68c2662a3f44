package service

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// An invalid setting is reported in one sentence that names it and shows no secret.
func TestFailedStartNamesTheSetting(t *testing.T) {
	t.Parallel()
	const password = "not-for-the-log"
	db := testkit.MariaDB(t)
	dsn := func(change func(*mysql.Config)) string {
		c, err := mysql.ParseDSN(db.DSN)
		fail.NowIf(t, err)
		c.User, c.Passwd = "root", password
		change(c)
		return c.FormatDSN()
	}
	redis, nobody := testkit.Redis(t).Addr(), testkit.FreeAddr(t)
	for name, test := range map[string]struct{ dsn, redis, setting, says string }{
		"no Redis there":    {db.DSN, nobody, "SECKILL_REDIS_ADDRS", "connection refused"},
		"no database there": {dsn(func(c *mysql.Config) { c.Addr = nobody }), redis, "SECKILL_MYSQL_DSN", "connection refused"},
		"wrong password":    {dsn(func(*mysql.Config) {}), redis, "SECKILL_MYSQL_DSN", "Access denied"},
		"wrong name":        {dsn(func(c *mysql.Config) { c.DBName, c.Passwd = "nosuch", "" }), redis, "SECKILL_MYSQL_DSN", "Unknown database"},
		"not a DSN":         {"root:" + password + "/@nowhere", redis, "SECKILL_MYSQL_DSN", "invalid MySQL DSN"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := ParseConfig([]string{"-addr", "127.0.0.1:0"}, []string{
				"SECKILL_MYSQL_DSN=" + test.dsn, "SECKILL_REDIS_ADDRS=" + test.redis,
				"SECKILL_JWT_SECRET=" + secret, "SECKILL_ADMIN_TOKEN=" + token,
			}, io.Discard)
			fail.NowIf(t, err)
			var logs strings.Builder
			err = Run(t.Context(), cfg, io.Discard, &logs)
			if err == nil || !strings.HasPrefix(err.Error(), test.setting+": ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("err = %v, want %q and %q", err, test.setting, test.says)
			}
			said := fmt.Sprint(logs.String(), err)
			for _, s := range []string{password, secret, token} {
				if strings.Contains(said, s) {
					t.Errorf("the secret %q was printed: %s", s, said)
				}
			}
		})
	}
}
