// Package browser opens pages in a real Chromium, for tests.
//
// A browser ends with its test. What a page asks of the network and what the browser complains of is noted, so that a
// test can say that there is nothing.
package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
)

// path finds a browser.
func path(t testkit.TB) string {
	t.Helper()
	return testkit.Tool(t, "apt-get install chromium", "chromium", "chromium-browser", "google-chrome")
}

// Open starts a browser that ends with the test, and returns its first tab and what is noted of it.
func Open(t testkit.TB, flags ...chromedp.ExecAllocatorOption) (tab context.Context, notes *Notes) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", false),
	)
	// Not the test's own context: the browser is closed after that has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 15*time.Minute) // for a browser that hangs
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(options, flags...)...)
	t.Cleanup(stop)
	return open(ctx, t)
}

// Tab opens another tab of the browser.
func Tab(of context.Context, t testkit.TB) (tab context.Context, notes *Notes) {
	t.Helper()
	return open(of, t)
}

func open(parent context.Context, t testkit.TB) (tab context.Context, notes *Notes) {
	t.Helper()
	tab, closeTab := chromedp.NewContext(parent)
	t.Cleanup(closeTab)
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Errorf("closing the browser: %v", err)
		}
	})
	notes = &Notes{}
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	if err := chromedp.Listen(tab, notes.event); err != nil {
		t.Fatalf("listening to the browser: %v", err)
	}
	_, err := chromedp.Call(tab, network.Enable, network.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(tab, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatalf("listening to the browser: %v", err)
	}
	return tab, notes
}

// Notes are what a page asks of the network, and what the browser complains of.
type Notes struct {
	mu       sync.Mutex
	requests []string
	trouble  []string
}

func (n *Notes) event(ev any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		n.requests = append(n.requests, ev.Request.URL)
	case *runtime.EventExceptionThrown:
		text := ev.ExceptionDetails.Text
		if thrown := ev.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		n.trouble = append(n.trouble, text)
	case *runtime.EventConsoleAPICalled:
		n.trouble = append(n.trouble, fmt.Sprintf("console.%s %s", ev.Type, arguments(ev.Args)))
	case *log.EventEntryAdded:
		n.trouble = append(n.trouble, fmt.Sprintf("%s: %s", ev.Entry.Level, ev.Entry.Text))
	}
}

func arguments(args []*runtime.RemoteObject) (text string) {
	for _, a := range args {
		text += string(a.Value)
	}
	return text
}

// Take returns what was noted, and forgets it.
func (n *Notes) Take() (requests, trouble []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	requests, trouble = n.requests, n.trouble
	n.requests, n.trouble = nil, nil
	return requests, trouble
}

// Window sets the size of the window and the colour scheme, "light" or "dark". A narrow window is a phone's.
func Window(tab context.Context, width, height int64, scheme string) error {
	var screen []chromedp.EmulateViewportOption
	if width < 700 {
		screen = append(screen, chromedp.EmulateMobile)
	}
	_, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		// Nothing moves: a colour on its way to another is neither's.
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	if err != nil {
		return err
	}
	return chromedp.Do(tab, chromedp.EmulateViewport(width, height, screen...))
}

// Language makes the visitor one who reads that language. It counts from the next page on.
func Language(tab context.Context, language string) error {
	agent, err := chromedp.Run(tab, chromedp.Evaluate[string]("navigator.userAgent"))
	if err != nil {
		return err
	}
	_, err = chromedp.Call(tab, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: language})
	return err
}

// Shoot keeps what the tab shows, as name.png in a folder.
func Shoot(tab context.Context, dir, name string) error {
	png, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
}

// axe is axe-core 4.14.1 (https://github.com/dequelabs/axe-core), as npm has it.
//
//go:embed testdata/axe-core/axe.min.js
var axe string

// Inaccessible returns what axe-core finds on the page that is serious or critical: missing names, too little contrast,
// a wrong use of ARIA and so on.
func Inaccessible(tab context.Context) ([]string, error) {
	return axeFinds(tab, `{ resultTypes: ['violations'] }`)
}

// LittleContrast returns the texts with a contrast of less than 7 to 1, or 4.5 to 1 if they are large.
func LittleContrast(tab context.Context) ([]string, error) {
	return axeFinds(tab, `{ runOnly: ['color-contrast-enhanced'], rules: { 'color-contrast-enhanced': { enabled: true } } }`)
}

func axeFinds(tab context.Context, options string) ([]string, error) {
	report := `axe.run(document, ` + options + `).then((r) => r.violations
		.filter((v) => v.impact === 'serious' || v.impact === 'critical')
		.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html + ' ' + n.failureSummary)))`
	if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](axe)); err != nil {
		return nil, err
	}
	return chromedp.Run(tab, chromedp.Evaluate[[]string](report, chromedp.EvalAwaitPromise))
}
