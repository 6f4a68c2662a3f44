package testkit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

type mariaDB struct{}

func (mariaDB) name() string { return "mariadb" }

const mariaDBHow = "apt-get install mariadb-server, brew install mariadb, or make infra"

func (mariaDB) locate() (sqlProgram, error) {
	path, err := lookUp("mariadbd", mariaDBHow)
	if err != nil {
		return sqlProgram{}, err
	}
	_, err = lookUp("mariadb-install-db", mariaDBHow) // install runs it
	return sqlProgram{path: path}, err
}

// initialize copies a data folder that mariadb-install-db filled once on this machine. That takes a tenth of the time.
func (m mariaDB) initialize(program sqlProgram, dir string) error {
	template, err := m.template(program)
	if err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(template))
}

// template returns the path of a freshly initialized data folder in the user's cache folder, and creates it if it does
// not exist. Its name contains a hash of everything that its content depends on, so it is never out of date.
func (m mariaDB) template(program sqlProgram) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home folder
	}
	version, err := exec.Command(program.path, "--no-defaults", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program.path, err)
	}
	sum := sha256.Sum256(fmt.Append(nil, program.path, version, mariaDBLayout, asRoot(), os.Getuid()))
	template := filepath.Join(cache, "seckill", fmt.Sprintf("mariadb-template-%x", sum[:8]))
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}

	if err := os.MkdirAll(filepath.Dir(template), 0o755); err != nil {
		return "", err
	}
	dir, remove, err := binary.folder(filepath.Dir(template))
	if err != nil {
		return "", err
	}
	err = m.install(filepath.Join(dir, "data"))
	if err == nil {
		err = os.Rename(filepath.Join(dir, "data"), template)
		if errors.Is(err, fs.ErrExist) { // another test binary was faster
			err = nil
		}
	}
	return template, errors.Join(err, remove())
}

// mariaDBLayout are the flags that determine the format of the files in a data folder.
const mariaDBLayout = "--innodb-log-file-size=32M"

// install fills an empty data folder.
func (mariaDB) install(dir string) error {
	install, err := lookUp("mariadb-install-db", mariaDBHow)
	if err != nil {
		return err
	}
	args := append([]string{"--no-defaults", "--datadir=" + dir, "--skip-test-db",
		"--auth-root-authentication-method=normal", mariaDBLayout}, asRoot()...)
	cmd := exec.Command(install, args...)
	cmd.Env = append(os.Environ(), ownTemp(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w; it printed:\n%s", err, out)
	}
	return nil
}

func (mariaDB) flags(string) []string { return []string{mariaDBLayout} }
