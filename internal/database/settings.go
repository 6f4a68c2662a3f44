package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrUnsuitable says that a server, or a proxy in front of it, has a setting with which the service does not work.
var ErrUnsuitable = errors.New("database: the server does not suit")

// checkSessions reads back what each pool sets in its sessions. A proxy that shares the server's connections among its
// clients may keep none of these settings: then what the service answers may never be committed. checkSessions has one
// connection at a time and keeps none, so a server that has only a few left is enough for a start.
func (d *DB) checkSessions(ctx context.Context) error {
	if d.galera == nil {
		return nil // SQLite has no sessions
	}
	for name, pool := range d.Pools() {
		variables, err := variablesOfNew(ctx, pool)
		if err != nil {
			return err
		}
		if err := sessionSuits(variables, pool == d.writers || pool == d.admission); err != nil {
			return fmt.Errorf("%w, in a session of the pool %s", err, name)
		}
	}
	return nil
}

// checkServer returns an [ErrUnsuitable] if the server takes no writes of this service. A server's state can change, so
// this is asked at the start only; later, a server that takes no writes is an outage.
func (d *DB) checkServer(ctx context.Context) error {
	if d.galera == nil {
		return nil
	}
	variables, err := variablesOf(ctx, d.readers)
	if err != nil {
		return err
	}
	return serverSuits(variables)
}

// variablesOfNew calls variablesOf with a connection that it closes afterwards.
func variablesOfNew(ctx context.Context, pool *sql.DB) (map[string]string, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, translate(ctx, err)
	}
	defer conn.Close()
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }() // so that the pool does not keep it
	return variablesOf(ctx, conn)
}

// queryer is a pool or one of its connections.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// variablesOf reads the variables of a session that the checks ask for, by name. No server has all of them.
func variablesOf(ctx context.Context, pool queryer) (map[string]string, error) {
	const query = `SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'completion_type', 'sql_safe_updates', 'sql_select_limit',
		'unique_checks', 'time_zone', 'version', 'tx_isolation', 'transaction_isolation', 'sql_mode', 'log_bin', 'binlog_format',
		'read_only', 'super_read_only', 'innodb_read_only', 'tx_read_only', 'transaction_read_only')`
	variables := map[string]string{}
	rows, err := pool.QueryContext(ctx, query)
	if err != nil {
		return nil, translate(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, translate(ctx, err)
		}
		variables[strings.ToLower(name)] = value
	}
	return normalized(variables), translate(ctx, rows.Err())
}

// normalized returns the variables as MySQL shows them. A gate of Vitess shows autocommit as a number, and 0 for a
// limit that is not set.
func normalized(variables map[string]string) map[string]string {
	if isGate(variables) {
		if on, there := map[string]string{"0": "OFF", "1": "ON"}[variables["autocommit"]]; there {
			variables["autocommit"] = on
		}
		if variables["sql_select_limit"] == "0" {
			variables["sql_select_limit"] = noLimit
		}
	}
	return variables
}

// sessionSuits compares the variables of a session with what its pool has set.
func sessionSuits(variables map[string]string, transactional bool) error {
	wanted := map[string]string{
		"autocommit": "ON", "completion_type": "NO_CHAIN", "sql_safe_updates": "OFF", "sql_select_limit": noLimit,
		"unique_checks": "ON", "time_zone": "+00:00", "tx_isolation": "READ-COMMITTED", "transaction_isolation": "READ-COMMITTED",
	}
	if transactional {
		wanted["autocommit"] = "OFF"
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if value, there := variables[name]; there && value != wanted[name] {
			return fmt.Errorf("%w: %s is %s, although the service has set %s: a proxy in front of it must keep a session for as long as its connection lives",
				ErrUnsuitable, name, value, wanted[name])
		}
	}
	if mode, there := variables["sql_mode"]; there && !strings.Contains(mode, "STRICT_ALL_TABLES") {
		return fmt.Errorf("%w: sql_mode is %q, although the service has set STRICT_ALL_TABLES: a proxy in front of it must keep a session for as long as its connection lives",
			ErrUnsuitable, mode)
	}
	return nil
}

// serverSuits checks the settings that a session cannot set.
func serverSuits(variables map[string]string) error {
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only", "tx_read_only", "transaction_read_only"} {
		// Some users may write all the same, but to a replica nobody should.
		if value := variables[name]; value != "" && value != "OFF" {
			return fmt.Errorf("%w: it is read-only (%s is %s): give the address of the primary, or set %s = OFF", ErrUnsuitable, name, value, name)
		}
	}
	if variables["log_bin"] == "ON" && variables["binlog_format"] == "STATEMENT" {
		return fmt.Errorf("%w: with binlog_format = STATEMENT, InnoDB refuses every write at the isolation level READ COMMITTED (error 1665): set binlog_format = ROW",
			ErrUnsuitable)
	}
	return nil
}
