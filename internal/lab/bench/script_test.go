package bench_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lab/bench"
	"seckill/internal/lock"
)

func TestScript(t *testing.T) {
	one := bench.Setup{Lock: "lua", Processes: 2, Lease: 5, Replica: true}
	nodes := bench.Setup{Lock: "red", Processes: 2, Lease: 5}
	for text, s := range map[string]bench.Setup{
		"a1~0.x-850.a2-1.p2~30.c2-0.k1-600000.d-7.n2-1.b2-1.l-1.u-1.f~0": one,
		"h3~0.a1-0.s3-1.h2~2": nodes,
		"":                    one,
	} {
		steps, err := bench.ParseScript(text, s)
		if err != nil || bench.Script(steps) != text {
			t.Errorf("%v, %v: %s", steps, err, bench.Script(steps))
		}
	}
	for wrong, reason := range map[string]bench.Reason{
		"a3~0": bench.WrongMove, "a0~0": bench.WrongMove, "a01~0": bench.WrongMove, "a~0": bench.WrongMove, "x1~0": bench.WrongMove, "z1~0": bench.WrongMove,
		"h1~0": bench.WrongMove, "~0": bench.WrongMove, "n3~0": bench.WrongMove, "a+1~0": bench.WrongMove,
		"a1": bench.WrongStep, "a1~": bench.WrongStep, "a1~-1": bench.WrongStep, "a1~x": bench.WrongStep, "a1~99999999999": bench.WrongStep,
		".": bench.WrongStep, "a1~0.": bench.WrongStep, "a1~600001": bench.WrongTime,
		strings.Repeat("a1~0.", 100) + "a1~0": bench.TooManySteps, strings.Repeat("a", 5000): bench.WrongStep,
	} {
		_, err := bench.ParseScript(wrong, one)
		wantReason(t, fmt.Sprintf("%.40q", wrong), err, reason)
	}
	for _, wrong := range []string{"h4~0", "f~0", "l~0"} {
		_, err := bench.ParseScript(wrong, nodes)
		wantReason(t, wrong, err, bench.WrongMove)
	}
}

func wantReason(t *testing.T, what string, err error, reason bench.Reason) {
	t.Helper()
	e, ok := errors.AsType[*bench.Error](err)
	if !ok || e.Reason != reason || !errors.Is(err, bench.ErrInvalid) {
		t.Errorf("%s: %v; want the reason %s", what, err, reason)
		return
	}
	if len(err.Error()) > 300 {
		t.Errorf("%s: a text of %d characters", what, len(err.Error()))
	}
}

func TestSetup(t *testing.T) {
	for _, m := range bench.Mechanisms() {
		good := bench.Setup{
			Lock: m.Name, Processes: 2, Lease: 5, Wait: 0, Renew: m.Ends == lock.EndsUnlessRenewed, Replica: m.Store == lock.InRedis,
		}
		if err := good.Validate(); err != nil || len(good.Needs()) == 0 {
			t.Errorf("%s: %v, %v", m.Name, err, good.Needs())
		}
	}
	for name, c := range map[string]struct {
		change func(*bench.Setup)
		reason bench.Reason
	}{
		"lock":        {func(s *bench.Setup) { s.Lock = "other" }, bench.WrongLock},
		"no lock":     {func(s *bench.Setup) { s.Lock = "" }, bench.WrongLock},
		"one process": {func(s *bench.Setup) { s.Processes = 1 }, bench.WrongProcesses},
		"processes":   {func(s *bench.Setup) { s.Processes = 5 }, bench.WrongProcesses},
		"no lease":    {func(s *bench.Setup) { s.Lease = 0 }, bench.WrongLease},
		"lease":       {func(s *bench.Setup) { s.Lease = 61 }, bench.WrongLease},
		"wait":        {func(s *bench.Setup) { s.Wait = 61 }, bench.WrongWait},
		"less":        {func(s *bench.Setup) { s.Wait = -1 }, bench.WrongWait},
		"renewal":     {func(s *bench.Setup) { s.Renew = true }, bench.WrongRenewal},
		"replica":     {func(s *bench.Setup) { s.Lock, s.Replica = "red", true }, bench.WrongReplica},
	} {
		s := bench.Setup{Lock: "lua", Processes: 2, Lease: 5, Wait: 0}
		c.change(&s)
		wantReason(t, name, s.Validate(), c.reason)
	}
}

// Each fault that a store does not support has a reason.
func TestOff(t *testing.T) {
	for _, c := range []struct {
		setup bench.Setup
		off   map[bench.Action]bench.Why
	}{
		{bench.Setup{Lock: "lua"}, map[bench.Action]bench.Why{bench.FailOver: bench.WhyNoReplica}},
		{bench.Setup{Lock: "lua", Replica: true}, map[bench.Action]bench.Why{}},
		{bench.Setup{Lock: "setnx", Replica: true}, map[bench.Action]bench.Why{bench.Expire: bench.WhyNoLease}},
		{bench.Setup{Lock: "red"}, map[bench.Action]bench.Why{bench.FailOver: bench.WhyNodes}},
		{bench.Setup{Lock: "zk-node"}, map[bench.Action]bench.Why{bench.FailOver: bench.WhyOneServer}},
		{bench.Setup{Lock: "mysql-get-lock"}, map[bench.Action]bench.Why{
			bench.FailOver: bench.WhyOneServer, bench.Expire: bench.WhyConnection, bench.Delete: bench.WhyConnection,
		}},
	} {
		off := c.setup.Off()
		for _, a := range []bench.Action{bench.Delete, bench.Expire, bench.FailOver} {
			if off[a] != c.off[a] {
				t.Errorf("%s: %q is off because of %q, want %q", c.setup.Lock, a, off[a], c.off[a])
			}
		}
	}
}
