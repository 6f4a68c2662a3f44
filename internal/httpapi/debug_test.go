package httpapi_test

import (
	"strings"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/testkit/fail"
)

func TestDebugRoutes(t *testing.T) {
	alone := newFixture(t, lab)
	apart := newFixture(t, lab, func(c *httpapi.Config, _ *fixture) { c.DebugListener = true })
	for _, c := range []struct {
		path                string
		alone, apart, debug int
	}{
		{path: "/livez", alone: 200, apart: 404, debug: 200},
		{path: "/readyz", alone: 200, apart: 404, debug: 200},
		{path: "/metrics", alone: 200, apart: 404, debug: 200},
		{path: "/debug/pprof/", alone: 404, apart: 404, debug: 200},
		{path: "/debug/pprof/cmdline", alone: 404, apart: 404, debug: 200},
	} {
		fail.Unequal(t, get(alone.handler, c.path).Code, c.alone, "%s on the only listener", c.path)
		fail.Unequal(t, get(apart.handler, c.path).Code, c.apart, "%s on the public listener", c.path)
		fail.Unequal(t, get(apart.api.Debug(), c.path).Code, c.debug, "%s on the debug listener", c.path)
	}
	if body := get(apart.api.Debug(), "/metrics").Body.String(); !strings.Contains(body, "seckill_orders_total") {
		t.Error("/metrics does not count orders")
	}
}
