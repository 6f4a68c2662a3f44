package testkit

import (
	"fmt"
	"os"
	"os/exec"
)

type mariaDB struct{}

func (mariaDB) name() string { return "mariadb" }

const mariaDBHow = "apt-get install mariadb-server, brew install mariadb, or make infra"

func (mariaDB) locate() (sqlProgram, error) {
	path, err := lookUp("mariadbd", mariaDBHow)
	if err != nil {
		return sqlProgram{}, err
	}
	_, err = lookUp("mariadb-install-db", mariaDBHow) // initialize runs it
	return sqlProgram{path: path}, err
}

func (mariaDB) initialize(_ sqlProgram, dir string) error {
	install, err := lookUp("mariadb-install-db", mariaDBHow)
	if err != nil {
		return err
	}
	args := append([]string{"--no-defaults", "--datadir=" + dir, "--skip-test-db",
		"--auth-root-authentication-method=normal", "--innodb-log-file-size=32M"}, asRoot()...)
	cmd := exec.Command(install, args...)
	cmd.Env = append(os.Environ(), ownTemp(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w; it printed:\n%s", err, out)
	}
	return nil
}

func (mariaDB) flags(string) []string { return []string{"--innodb-log-file-size=32M"} }
