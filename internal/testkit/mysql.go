package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

type mySQL struct{}

func (mySQL) name() string { return "mysql" }

const (
	mySQLHow = "where apt only has MariaDB, sudo scripts/mysql-root.sh provides it in a folder; else install MySQL 8 or newer"

	// rootMySQLd and rootTemplate are the paths of the program and of an initialized data folder, below the folder that
	// scripts/mysql-root.sh makes.
	rootMySQLd   = "/usr/sbin/mysqld"
	rootTemplate = "/var/lib/seckill-template"
)

// locate prefers a mysqld on the PATH that is MySQL's: if MariaDB is installed, its server has that name. Otherwise it
// looks into the folder that scripts/mysql-root.sh makes.
func (mySQL) locate() (sqlProgram, error) {
	if err := allowed(); err != nil {
		return sqlProgram{}, err
	}
	if path, err := lookUp("mysqld", mySQLHow); err == nil {
		version, err := exec.Command(path, "--no-defaults", "--version").Output()
		if err == nil && !bytes.Contains(version, []byte("MariaDB")) {
			return sqlProgram{path: path}, nil
		}
	}
	root := os.Getenv("SECKILL_TEST_MYSQL_ROOT")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return sqlProgram{}, &MissingError{Server: "mysqld (MySQL, not MariaDB)", How: mySQLHow}
		}
		root = filepath.Join(cache, "seckill", "mysql-root")
	}
	if _, err := os.Stat(filepath.Join(root, rootMySQLd)); err != nil {
		return sqlProgram{}, &MissingError{Server: "mysqld (MySQL, not MariaDB)", How: mySQLHow}
	}
	if os.Geteuid() != 0 {
		return sqlProgram{}, &MissingError{Server: "mysqld (MySQL, not MariaDB)", How: "the one in " + root + " needs root, for chroot"}
	}
	return sqlProgram{path: rootMySQLd, root: root}, nil
}

// rootOverTCP is executed by the server before it listens: a new MySQL accepts root from "localhost" only, and without
// name look-ups the tests come from 127.0.0.1. It is not logged: a server whose log has what its primary's has not
// cannot become a replica.
const rootOverTCP = `SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
`

// initFile is the path of the file with rootOverTCP, beside the data folder.
func initFile(dir string) string { return filepath.Join(filepath.Dir(dir), "init.sql") }

// initialize copies the template if there is one, all but the id of a server. That takes a tenth of the time.
func (mySQL) initialize(program sqlProgram, dir string) error {
	if err := os.WriteFile(initFile(dir), []byte(rootOverTCP), 0o600); err != nil {
		return err
	}
	if program.root != "" {
		err := os.CopyFS(dir, os.DirFS(filepath.Join(program.root, rootTemplate)))
		if err == nil {
			err = os.Remove(filepath.Join(dir, "auto.cnf"))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	args := append([]string{"--no-defaults", "--initialize-insecure", "--datadir=" + program.inside(dir)}, asRoot()...)
	cmd := exec.Command(program.path, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), ownTemp(program.inside(dir)))
	cmd.SysProcAttr = childAttributes(program.root)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mysqld --initialize-insecure: %w; it printed:\n%s", err, out)
	}
	return nil
}

func (mySQL) flags(dir string) []string {
	return []string{"--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=32M", "--init-file=" + initFile(dir)}
}
