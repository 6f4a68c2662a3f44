package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxSecretFile is the largest file that is read for a secret, in bytes.
const maxSecretFile = 64 << 10

// ReadSecret reads a secret from a file, without a newline at its end. An empty file is an error. Its errors show a path
// only if it has a folder: otherwise it may be the secret itself, given in the place of its file.
func ReadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok && !strings.ContainsRune(path, os.PathSeparator) {
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
