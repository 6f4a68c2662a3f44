package harness

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// InProcess is a service in this process.
type InProcess struct {
	Banner, Curl string
	Pay          string // the lines that buy, pay and show, of an embedded service with its own sandbox
	stop         context.CancelFunc
	ended        chan error
	Logs         *strings.Builder // to be read after the end
}

// StartInProcess runs the service on a free port and waits for its banner.
func StartInProcess(t *testing.T, args, environ []string) *InProcess {
	t.Helper()
	cfg, err := service.ParseConfig(append([]string{"-addr", "127.0.0.1:0"}, args...), environ, io.Discard)
	fail.NowIf(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r := &InProcess{stop: stop, ended: make(chan error, 1), Logs: &strings.Builder{}}
	out, in := io.Pipe()
	go func() {
		err := service.Run(ctx, cfg, in, r.Logs)
		r.ended <- err
		_ = in.CloseWithError(errors.Join(err, io.EOF))
	}()
	t.Cleanup(func() {
		stop()
		if err, first := <-r.ended; first && err != nil {
			t.Errorf("the service ended with %v\n%s", err, r.Logs)
		}
	})
	lines := bufio.NewReader(out)
	if r.Banner, err = lines.ReadString('\n'); err != nil {
		t.Fatalf("no banner: %v", err)
	}
	if cfg.Embedded {
		if r.Curl, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("no curl line: %v", err)
		}
	}
	for range 5 {
		if !cfg.Embedded || cfg.Payment.URL != "" {
			break
		}
		line, err := lines.ReadString('\n')
		fail.NowIf(t, err, "no lines of the sandbox")
		if !strings.HasPrefix(line, "seckill: ") {
			r.Pay += line
		}
	}
	return r
}

// End stops the service and returns its error.
func (r *InProcess) End() error {
	r.stop()
	err := <-r.ended
	close(r.ended)
	return err
}

// CurlLine matches the line that buys: a header, its value and the URL of the orders.
var CurlLine = regexp.MustCompile(`^curl -i -X POST -H '(\S+): (\S+)' (http://\S+)\n$`)

// Buy runs the printed curl command.
func (r *InProcess) Buy(t *testing.T) (status int, body string) {
	t.Helper()
	found := CurlLine.FindStringSubmatch(r.Curl)
	if found == nil {
		t.Fatalf("the curl line is %q", r.Curl)
	}
	return Call(t, http.MethodPost, found[3], http.Header{found[1]: {found[2]}}, "")
}

// Noticed removes from a log what a slow machine adds to it.
func Noticed(logs string) string {
	var lines strings.Builder
	for line := range strings.Lines(logs) {
		slow := strings.Contains(line, `"msg":"slow statement"`) ||
			// A read of the Redis in the process, which a slow machine answers late.
			strings.Contains(line, `"msg":"fulfil: a stream failed, retrying","error":"read accepted orders: read pipe: i/o timeout"`)
		if !slow {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// URLOfBanner is the address that the service has printed.
func (r *InProcess) URLOfBanner(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`http://[^, \n]+`).FindString(r.Banner)
	if found == "" {
		t.Fatalf("the banner is %q", r.Banner)
	}
	return found
}

// AwaitMetrics waits until the metrics have these lines or names, and returns all. An order is counted after its entry
// has gone.
func (r *InProcess) AwaitMetrics(t *testing.T, wanted ...string) (metrics string) {
	t.Helper()
	for _, want := range wanted {
		testkit.Until(t, want+" is in the metrics", func() bool {
			_, metrics = Call(t, http.MethodGet, r.URLOfBanner(t)+"/metrics", nil, "")
			return strings.Contains(metrics, want)
		})
	}
	return metrics
}
