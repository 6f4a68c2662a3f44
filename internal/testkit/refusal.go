package testkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// account is the ordinary user of [SQLServer.Account]. Most refusals do not affect root.
const account = "seckill"

// Account returns db with the DSN of an ordinary user, who has all privileges on that database and no others. A service
// under test connects as this user: a server that is read-only, offline or out of connections still serves root.
func (s *SQLServer) Account(t TB, db Database) Database {
	t.Helper()
	_, name, _ := strings.Cut(db.DSN, "/")
	for _, query := range []string{
		"CREATE USER IF NOT EXISTS " + account + "@'%'",
		"GRANT ALL ON " + name + ".* TO " + account + "@'%'",
	} {
		if err := s.process.exec(query); err != nil {
			t.Fatalf("testkit: make an account on %s: %v", s.process.engine.name(), err)
		}
	}
	db.DSN = account + strings.TrimPrefix(db.DSN, "root")
	return db
}

// SmallTablespace returns flags for [NewMariaDB] and [NewMySQL]: all tables share one file of at most 32 MB, so that it
// can be filled. Without them a trigger answers [Refusals] with the error of a full disk.
func SmallTablespace() []string {
	return []string{"--innodb-file-per-table=OFF", tablespaceOf(smallTablespace), "--innodb-autoextend-increment=1"}
}

const smallTablespace = 32 // MB

// tablespaceOf is the flag for one file of at most that many MB.
func tablespaceOf(mb int) string {
	return fmt.Sprintf("--innodb-data-file-path=ibdata1:12M:autoextend:max:%dM", mb)
}

// Refusal is a state of a database server in which it refuses every write, or those for one voucher, with the same
// error.
type Refusal struct {
	Name string
	// Number is the number of the server's error, 0 if the server reports none.
	Number uint16
	// Begin puts the server into the state. If the state would only affect new connections, it also closes the
	// account's connections. end ends the state.
	Begin func(ctx context.Context) (end func(ctx context.Context) error, err error)
}

// Refusals lists the refusals that the server supports for the users of db, which comes from [SQLServer.Account]. Only
// one may be active at a time.
func Refusals(server *SQLServer, db Database) []Refusal {
	r := &refuser{server: server.process, db: db}
	_, r.schema, _ = strings.Cut(db.DSN, "/")
	all := []Refusal{
		{"password changed", 1045, r.statements("ALTER USER "+account+"@'%' IDENTIFIED BY 'changed'", "ALTER USER "+account+"@'%' IDENTIFIED BY ''")},
		{"privilege revoked", 1142, r.statements("REVOKE INSERT ON "+r.schema+".* FROM "+account+"@'%'", "GRANT INSERT ON "+r.schema+".* TO "+account+"@'%'")},
		{"table renamed", 1146, r.statements("RENAME TABLE "+r.schema+".orders TO "+r.schema+".orders_away", "RENAME TABLE "+r.schema+".orders_away TO "+r.schema+".orders")},
		{"too many connections", 1040, r.tooManyConnections},
	}
	if server.process.engine.name() == "mysql" {
		all = append(all,
			Refusal{"read-only transactions", 1792, r.statements("SET GLOBAL transaction_read_only = ON", "SET GLOBAL transaction_read_only = OFF")},
			Refusal{"read-only", 1290, r.statements("SET GLOBAL super_read_only = ON", "SET GLOBAL read_only = OFF")},
			Refusal{"offline", 3032, r.statements("SET GLOBAL offline_mode = ON", "SET GLOBAL offline_mode = OFF")},
		)
	} else {
		all = append(all,
			Refusal{"read-only transactions", 1792, r.statements("SET GLOBAL tx_read_only = ON", "SET GLOBAL tx_read_only = OFF")},
			Refusal{"read-only", 1290, r.statements("SET GLOBAL read_only = ON", "SET GLOBAL read_only = OFF")},
		)
	}
	if slices.Contains(server.process.extra, SmallTablespace()[0]) {
		return append(all, Refusal{"disk full", tableFull, r.diskFull})
	}
	// A table that has grown keeps free pages, so a full disk would not stop it for hundreds of orders.
	return append(all, Refusal{"error of a full disk", tableFull, r.trigger(
		"full", "BEFORE INSERT", "orders", fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d", tableFull),
	)})
}

// VoucherRefusals lists refusals of the orders of one voucher: the server takes those of all others.
func VoucherRefusals(server *SQLServer, db Database, voucherID int64) []Refusal {
	r := &refuser{server: server.process, db: db}
	_, r.schema, _ = strings.Cut(db.DSN, "/")
	orders, known := r.schema+".orders", r.schema+".known"
	return []Refusal{
		{"trigger", 1644, r.trigger("refuses", "BEFORE UPDATE", "vouchers", fmt.Sprintf("IF NEW.id = %d THEN SIGNAL SQLSTATE '45000'; END IF", voucherID))},
		{"foreign key", 1452, r.changes([]string{
			"CREATE TABLE " + known + " (id BIGINT PRIMARY KEY)",
			fmt.Sprintf("INSERT INTO %s SELECT id FROM %s.vouchers WHERE id <> %d", known, r.schema, voucherID),
			"SET foreign_key_checks = OFF", // for the orders that are there already
			"ALTER TABLE " + orders + " ADD CONSTRAINT refuses FOREIGN KEY (voucher_id) REFERENCES " + known + " (id)",
		}, []string{"ALTER TABLE " + orders + " DROP FOREIGN KEY refuses", "DROP TABLE " + known})},
	}
}

// MissingVoucher is the state of a server that does not have the row of a voucher, like a replica that lags and took
// over. The other vouchers are not affected: the row is moved to another table, and later back.
func MissingVoucher(server *SQLServer, db Database, voucherID int64) Refusal {
	r := &refuser{server: server.process, db: db}
	_, r.schema, _ = strings.Cut(db.DSN, "/")
	vouchers, away := r.schema+".vouchers", r.schema+".vouchers_away"
	return Refusal{"voucher missing", 0, r.changes([]string{
		"CREATE TABLE " + away + " LIKE " + vouchers,
		"BEGIN",
		fmt.Sprintf("INSERT INTO %s SELECT * FROM %s WHERE id = %d FOR UPDATE", away, vouchers, voucherID),
		fmt.Sprintf("DELETE FROM %s WHERE id = %d", vouchers, voucherID),
		"COMMIT",
	}, []string{"INSERT INTO " + vouchers + " SELECT * FROM " + away, "DROP TABLE " + away})}
}

// LockedVoucher is the state of a server on which somebody keeps the row of a voucher locked. Writes of the voucher
// wait for it until they time out.
func LockedVoucher(server *SQLServer, db Database, voucherID int64) Refusal {
	r := &refuser{server: server.process, db: db}
	_, r.schema, _ = strings.Cut(db.DSN, "/")
	return Refusal{"voucher locked", 1205, r.changes(
		[]string{"BEGIN", fmt.Sprintf("UPDATE %s.vouchers SET stock = stock WHERE id = %d", r.schema, voucherID)}, []string{"ROLLBACK"},
	)}
}

// refuser begins and ends the refusals of a server.
type refuser struct {
	server *sqlProcess
	db     Database
	schema string
	aborts int // of the server, because of its full disk
}

// admin returns a connection as root, which the refusals do not affect.
func (r *refuser) admin(ctx context.Context) (*sql.Conn, func() error, error) {
	pool, err := sql.Open("mysql", r.server.dsn(""))
	if err != nil {
		return nil, nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return conn, func() error { return errors.Join(conn.Close(), pool.Close()) }, nil
}

// statements begins a refusal with one statement and ends it with another one.
func (r *refuser) statements(begin, end string) func(context.Context) (func(context.Context) error, error) {
	return r.changes([]string{begin}, []string{end})
}

// trigger is a refusal by a trigger of a table.
//
// MariaDB 10.11 keeps a trigger that it drops if a connection was killed while it read the table's triggers: the server
// then has them as "Unknown trigger has an error in its body", until it reads them again.
func (r *refuser) trigger(name, event, table, body string) func(context.Context) (func(context.Context) error, error) {
	name, table = r.schema+"."+name, r.schema+"."+table
	return r.changes(
		[]string{"CREATE TRIGGER " + name + " " + event + " ON " + table + " FOR EACH ROW " + body},
		[]string{"FLUSH TABLES " + table, "DROP TRIGGER " + name},
	)
}

// execAll executes statements until one fails.
func execAll(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, query := range statements {
		if _, err := conn.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return nil
}

// changes begins a refusal with some statements and ends it with others, all of them on one connection.
func (r *refuser) changes(begin, end []string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		admin, done, err := r.admin(ctx)
		if err != nil {
			return nil, err
		}
		if err := execAll(ctx, admin, begin); err != nil {
			return nil, errors.Join(err, done())
		}
		if err := r.killConnections(ctx, admin, nil); err != nil {
			return nil, errors.Join(err, done())
		}
		return func(ctx context.Context) error {
			return errors.Join(execAll(ctx, admin, end), done())
		}, nil
	}
}

// connections returns the ids of an account's connections. SHOW PROCESSLIST also works while a session runs a statement
// with an emoji; on MySQL, information_schema.processlist then answers error 3854.
func connections(ctx context.Context, admin *sql.Conn, account string) ([]int64, error) {
	rows, err := admin.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var ids []int64
	for rows.Next() {
		var id int64
		var user string
		row := []any{&id, &user}
		for range len(columns) - len(row) { // the two servers differ in the rest
			row = append(row, new(sql.RawBytes))
		}
		if err := rows.Scan(row...); err != nil {
			return nil, err
		}
		if user == account {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// noSuchThread: the connection ended before it was killed.
const noSuchThread = 1094

// killConnections closes all connections of the account, with exceptions.
func (r *refuser) killConnections(ctx context.Context, admin *sql.Conn, except []int64) error {
	ids, err := connections(ctx, admin, account)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if slices.Contains(except, id) {
			continue
		}
		_, err := admin.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
		if e, refused := errors.AsType[*mysql.MySQLError](err); err != nil && (!refused || e.Number != noSuchThread) {
			return err
		}
	}
	return nil
}

// minConnections is the smallest connection limit that both servers accept.
const minConnections = 10

// tooManyConnections takes every connection that the server has for ordinary users.
func (r *refuser) tooManyConnections(ctx context.Context) (func(context.Context) error, error) {
	admin, done, err := r.admin(ctx)
	if err != nil {
		return nil, err
	}
	var before int
	if err := admin.QueryRowContext(ctx, "SELECT @@global.max_connections").Scan(&before); err != nil {
		return nil, errors.Join(err, done())
	}
	pool, err := sql.Open("mysql", r.db.DSN)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	var held []*sql.Conn
	end := func(ctx context.Context) error {
		_, err := admin.ExecContext(ctx, fmt.Sprintf("SET GLOBAL max_connections = %d", before))
		failed := []error{err}
		for _, conn := range held {
			failed = append(failed, conn.Close())
		}
		return errors.Join(append(failed, pool.Close(), done())...)
	}
	if _, err := admin.ExecContext(ctx, fmt.Sprintf("SET GLOBAL max_connections = %d", minConnections)); err != nil {
		return nil, errors.Join(err, end(ctx))
	}
	// The service opens connections during this loop, too, so they are closed until it has none.
	var mine []int64                   // their ids
	for len(mine) < minConnections-1 { // root's connection counts as one
		if err := r.killConnections(ctx, admin, mine); err != nil {
			return nil, errors.Join(err, end(ctx))
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			continue // the service was faster
		}
		held = append(held, conn)
		var id int64
		if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return nil, errors.Join(err, end(ctx))
		}
		mine = append(mine, id)
	}
	if err := r.killConnections(ctx, admin, mine); err != nil {
		return nil, errors.Join(err, end(ctx))
	}
	return end, nil
}

// tableFull is the error of a full tablespace or disk.
const tableFull = 1114

// diskFull fills the tablespace of a server with [SmallTablespace].
//
// DROP TABLE writes an undo log, and a full tablespace has no page for it. So a second transaction inserts 6 MB before
// the tablespace is full. Its rollback needs no new page, and frees the space that DROP TABLE needs: whole extents of 1
// MB, and several of them. InnoDB keeps some for other uses, and the service writes again at once. With 512 KB, DROP
// TABLE found the tablespace full in one of 20 runs.
//
// MariaDB 10.11 aborts when it has no space to undo a write ("[FATAL] InnoDB: Error (Out of disk space) in rollback"),
// and once started again at the next DROP TABLE. An operator gives it more space first, and so does this, also if DROP
// TABLE still finds the tablespace full.
func (r *refuser) diskFull(ctx context.Context) (func(context.Context) error, error) {
	empty, err := r.fillDisk(ctx)
	for r.aborted(err) {
		if err := r.afterAbort(ctx); err != nil {
			return nil, err
		}
		empty, err = r.fillDisk(ctx)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		err := empty(ctx)
		if isFull(err) {
			r.server.Kill()
		} else if !r.aborted(err) {
			return err
		}
		return r.afterAbort(ctx)
	}, nil
}

// aborted reports whether an error comes from the end of the server, and waits for it.
func (r *refuser) aborted(err error) bool {
	if !errors.Is(err, mysql.ErrInvalidConn) && !errors.Is(err, driver.ErrBadConn) {
		return false
	}
	select {
	case <-r.server.Done():
		return true
	case <-time.After(stopGrace):
		return false
	}
}

// afterAbort starts a server that has aborted because of its full disk, with more space than it had.
func (r *refuser) afterAbort(ctx context.Context) error {
	r.aborts++
	r.server.extra = append(r.server.extra, tablespaceOf((1+r.aborts)*smallTablespace)) // the last such flag counts
	if err := r.server.restart(); err != nil {
		return err
	}
	admin, done, err := r.admin(ctx)
	if err != nil {
		return err
	}
	return errors.Join(execAll(ctx, admin, r.dropFillers()), done())
}

// dropFillers are the statements that give back what fillDisk has taken.
func (r *refuser) dropFillers() []string {
	return []string{"DROP TABLE IF EXISTS " + r.schema + ".filler", "DROP TABLE IF EXISTS " + r.schema + ".reserve"}
}

func (r *refuser) fillDisk(ctx context.Context) (func(context.Context) error, error) {
	admin, done, err := r.admin(ctx)
	if err != nil {
		return nil, err
	}
	holder, holderDone, err := r.admin(ctx)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	filler, reserve := r.schema+".filler", r.schema+".reserve"
	end := func(ctx context.Context) error {
		return errors.Join(
			execAll(ctx, holder, []string{"ROLLBACK"}), holderDone(),
			execAll(ctx, admin, r.dropFillers()), done(),
		)
	}
	if err := execAll(ctx, holder, []string{
		"CREATE TABLE " + reserve + " (room LONGBLOB)", "BEGIN",
		"INSERT INTO " + reserve + " VALUES " + strings.Join(slices.Repeat([]string{"(REPEAT('x', 512 * 1024))"}, 12), ", "),
	}); err != nil {
		return nil, errors.Join(err, end(ctx))
	}
	_, err = admin.ExecContext(ctx, "CREATE TABLE "+filler+" (id INT AUTO_INCREMENT PRIMARY KEY, room LONGBLOB)")
	for _, size := range []int{1 << 20, 64 << 10, 4 << 10} {
		for err == nil {
			_, err = admin.ExecContext(ctx, "INSERT INTO "+filler+" (room) VALUES (REPEAT('x', ?))", size)
		}
		if !isFull(err) {
			return nil, errors.Join(fmt.Errorf("fill the tablespace: %w", err), end(ctx))
		}
		err = nil
	}
	return end, nil
}

func isFull(err error) bool {
	e, refused := errors.AsType[*mysql.MySQLError](err)
	return refused && e.Number == tableFull
}
