package harness

import (
	"regexp"
	"testing"
)

// UrlOfBanner is the address that the service has printed.
func (r *InProcess) UrlOfBanner(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`http://[^, \n]+`).FindString(r.Banner)
	if found == "" {
		t.Fatalf("the banner is %q", r.Banner)
	}
	return found
}
