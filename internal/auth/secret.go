package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSecretFile is the largest file that is read for a secret, in bytes.
const maxSecretFile = 64 << 10

// ReadSecret reads a secret from a file, without a newline at its end. An empty file is an error. Its errors show a path
// only if it has a folder that is there: otherwise it may be the secret itself, given in the place of its file.
func ReadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok && !hasFolder(path) {
		return "", fmt.Errorf("want the path of a file: %w", failed.Err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxSecretFile:
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxSecretFile)
	case secret == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// hasFolder reports whether a path names a folder that is there. The root does not count: a secret in base64 may begin
// with a slash.
func hasFolder(path string) bool {
	folder := filepath.Dir(path)
	if folder == "." || folder == string(os.PathSeparator) {
		return false
	}
	info, err := os.Stat(folder)
	return err == nil && info.IsDir()
}
