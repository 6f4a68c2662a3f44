package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxSecretFile is the largest file that is read for a secret, in bytes.
const maxSecretFile = 64 << 10

// ReadSecret reads a secret from a file, without a newline at its end. An empty file is an error. Its errors show a
// path only if it has a folder that is there: otherwise it may be the secret itself, given in the place of its file.
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
	if why := foreign(secret); why != "" {
		return "", fmt.Errorf("%s %s", path, why)
	}
	return secret, nil
}

// foreign says what in a file is not part of a secret but of how an editor has saved it; "" if nothing is. A key of
// random bytes is no text, and has none of it.
func foreign(secret string) string {
	switch {
	case strings.Count(secret, "\x00")*3 >= len(secret):
		return "is UTF-16: save it as plain text, ASCII or UTF-8"
	case strings.HasPrefix(secret, "\ufeff"):
		return "begins with a byte order mark, which would be part of the secret: save it as UTF-8 without one"
	case utf8.ValidString(secret) && strings.TrimSpace(secret) != secret:
		return "begins or ends with a blank or an empty line, which would be part of the secret: remove it; at most one newline may stand at the end, and printf %s writes none"
	}
	return ""
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
