package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// NoTransaction waits until no transaction that has used one of the tables is open. It returns the server's error 1205
// if one is still open after limit, which is rounded up to seconds. The tables are in db's database, on MariaDB or
// MySQL.
//
// It asks for the tables' metadata locks, which every transaction keeps until its end. The alternative,
// information_schema.innodb_trx, cannot be trusted in tests: the server renews that list only if nobody has read it for
// 100 ms, and MySQL answers error 3854 while any session runs a statement with a character outside of utf8mb3, such as
// an emoji.
func NoTransaction(ctx context.Context, db *sql.DB, limit time.Duration, tables ...string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range []string{
		fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, (limit+time.Second-1)/time.Second)),
		"LOCK TABLES " + strings.Join(tables, " WRITE, ") + " WRITE",
		"UNLOCK TABLES",
		"SET SESSION lock_wait_timeout = DEFAULT",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
