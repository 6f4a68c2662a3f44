package browser_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The vendored files are those of the package axe-core 4.14.1 on npm.
func TestVendoredFilesAreUnchanged(t *testing.T) {
	for name, want := range map[string]string{
		"axe.min.js": "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
		"LICENSE":    "af175b9d96ee93c21a036152e1b905b0b95304d4ae8c2c921c7609100ba8df7e",
	} {
		text, err := os.ReadFile("testdata/axe-core/" + name)
		fail.NowIf(t, err)
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the checksum %x", name, sum)
		}
	}
}

// The tests of pages rely on this: complaints are noted, and text that cannot be read or named is found.
func TestFaultsOfAPageAreSeen(t *testing.T) {
	tab, notes := browser.Open(t)
	page := `data:text/html,<html lang=en><title>t</title><main><h1>t</h1><p style="color:%23ccc;background:%23fff">pale</p>` +
		`<button></button></main><script>console.error("trouble")</script>`
	fail.NowIf(t, chromedp.Do(tab, chromedp.Navigate(page)))
	found, err := browser.Inaccessible(tab)
	fail.NowIf(t, err)
	all := strings.Join(found, "\n")
	if !strings.Contains(all, "color-contrast: ") || !strings.Contains(all, "button-name: ") {
		t.Errorf("found %q", found)
	}
	testkit.Until(t, "the error is noted", func() bool {
		_, trouble := notes.Take()
		return strings.Contains(strings.Join(trouble, "\n"), "trouble")
	})
}
