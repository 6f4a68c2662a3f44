package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/go-sql-driver/mysql" // database/sql's driver for both engines
)

// SQLServer is a mariadbd or mysqld process of one test. Its methods fail that test, so those that can fail
// (Stop, Restart, Database) must be called from the test's own goroutine.
type SQLServer struct{ server[*sqlProcess] }

// NewMariaDB starts a MariaDB server for this test alone and stops it at the end of the test. args are
// additional flags of mariadbd, such as "--innodb-lock-wait-timeout=1".
func NewMariaDB(t TB, args ...string) *SQLServer {
	t.Helper()
	return NewMariaDBEnv(t, nil, args...)
}

// NewMariaDBEnv is NewMariaDB with additional environment variables (NAME=value), such as a library to
// preload.
func NewMariaDBEnv(t TB, env []string, args ...string) *SQLServer {
	t.Helper()
	return newSQL(t, mariaDB{}, env, args)
}

// NewMySQL starts a MySQL server for this test alone and stops it at the end of the test. args are
// additional flags of mysqld.
func NewMySQL(t TB, args ...string) *SQLServer {
	t.Helper()
	return newSQL(t, mySQL{}, nil, args)
}

func newSQL(t TB, engine sqlEngine, env, args []string) *SQLServer {
	t.Helper()
	process, err := startSQL(engine, env, args)
	check(t, err)
	return newSQLServer(t, process)
}

// newSQLServer stops the process at the end of the test, and shows what it printed if the test failed.
func newSQLServer(t TB, process *sqlProcess) *SQLServer {
	t.Cleanup(func() {
		if t.Failed() {
			process.logOutput(t, process.name())
		}
	})
	closeAtEnd(t, process)
	return &SQLServer{server[*sqlProcess]{t, process, false}}
}

// PID is the server's process.
func (s *SQLServer) PID() int { return s.process.PID() }

// Database creates an empty database on the server.
func (s *SQLServer) Database(t TB) Database {
	t.Helper()
	db, _ := s.process.database(t)
	return db
}

// sqlEngine has the differences between MariaDB and MySQL.
type sqlEngine interface {
	name() string
	// locate finds the program.
	locate() (sqlProgram, error)
	// initialize fills an empty data folder.
	initialize(program sqlProgram, dir string) error
	// flags returns the server flags of the engine; dir is the data folder as the program sees it.
	flags(dir string) []string
}

// sqlStarter is an engine with additional steps at each start.
type sqlStarter interface {
	// ports returns the distances from its port at which the server listens, too.
	ports() []int
	// start returns additional flags and environment variables.
	start(s *sqlProcess) (flags, env []string, err error)
	// ready returns nil when a server that answers can be used.
	ready(ctx context.Context, db *sql.DB) error
}

// sqlProgram is the path of a server's program, relative to root if that is not "".
type sqlProgram struct {
	path string
	root string
}

// inside converts a path of this system into the one that the program sees.
func (p sqlProgram) inside(path string) string { return strings.TrimPrefix(path, p.root) }

// temp is the parent of the program's data folders; "" means the system's temporary folder.
func (p sqlProgram) temp() string {
	if p.root == "" {
		return ""
	}
	return filepath.Join(p.root, "tmp")
}

// sqlProcess is a server process with its port and data folder.
type sqlProcess struct {
	home
	engine  sqlEngine
	program sqlProgram
	env     []string
	extra   []string
}

func (s *sqlProcess) name() string { return s.engine.name() }

func startSQL(engine sqlEngine, env, extra []string) (*sqlProcess, error) {
	program, err := engine.locate()
	if err != nil {
		return nil, err
	}
	s := &sqlProcess{engine: engine, program: program, env: env, extra: extra}
	var above []int
	if starter, ok := engine.(sqlStarter); ok {
		above = starter.ports()
	}
	return s, s.settle(s, program.temp(), func() error { return engine.initialize(program, s.data()) }, above...)
}

func (s *sqlProcess) restart() error {
	c := Command{Path: s.program.path, Args: s.args(), Env: s.env, Dir: s.program.inside(s.dir), Root: s.program.root}
	if starter, ok := s.engine.(sqlStarter); ok {
		flags, env, err := starter.start(s)
		if err != nil {
			return err
		}
		c.Args, c.Env = append(c.Args, flags...), slices.Concat(c.Env, env)
	}
	return s.run(c, s.ready)
}

// asRoot returns the flag that lets a server run as root if the test does. Servers demand it, and one
// that changes its user would lose its death signal.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// ownTemp returns the environment variable that sets a program's temporary folder to the parent of its
// data folder. A starting server removes every "#sql*" file from its temporary folder, including those
// of another server that is just being set up.
func ownTemp(dir string) string { return "TMPDIR=" + filepath.Dir(dir) }

// args returns the flags of a small server that starts fast. None of them changes what a statement or a
// lock does.
func (s *sqlProcess) args() []string {
	dir := s.program.inside(s.dir)
	return slices.Concat([]string{
		"--no-defaults", // must be the first
		"--datadir=" + s.program.inside(s.data()),
		"--socket=", // none: its path, in a long TMPDIR, would be longer than one may be
		"--pid-file=" + filepath.Join(dir, "pid"),
		"--tmpdir=" + dir, // see ownTemp
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--port=%d", s.port),
		"--skip-name-resolve",
		"--max-connections=300",
		"--innodb-buffer-pool-size=64M",
		"--innodb-log-buffer-size=2M", // of 64 MB, which MySQL fills with zeros
		"--key-buffer-size=1M",        // of 128 MB: no test has a MyISAM table
		"--performance-schema=OFF",
		"--skip-log-bin",
	}, asRoot(), s.engine.flags(s.program.inside(s.data())), s.extra)
}

// ready asks for the data folder: the answer could come from another server on the same port.
func (s *sqlProcess) ready(ctx context.Context) error {
	if err := listening(ctx, s.addr()); err != nil {
		return err
	}
	db, err := sql.Open("mysql", s.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	var dir string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&dir); err != nil {
		return err
	}
	if filepath.Clean(dir) != s.program.inside(s.data()) {
		return fmt.Errorf("a server over %s answers at %s, not the one over %s", dir, s.addr(), s.data())
	}
	if starter, ok := s.engine.(sqlStarter); ok {
		return starter.ready(ctx, db)
	}
	return nil
}

func (s *sqlProcess) data() string { return filepath.Join(s.dir, "data") }

func (s *sqlProcess) dsn(database string) string {
	return fmt.Sprintf("root@tcp(%s)/%s", s.addr(), database)
}
