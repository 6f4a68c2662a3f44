package byhand_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lab/byhand"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

func TestScript(t *testing.T) {
	one := byhand.Setup{Lock: "lua", Processes: 2, Lease: 5, Replica: true}
	nodes := byhand.Setup{Lock: "red", Processes: 2, Lease: 5}
	for text, s := range map[string]byhand.Setup{
		"a1~0.x-850.a2-1.p2~30.c2-0.k1-600000.d-7.n2-1.b2-1.l-1.u-1.f~0": one,
		"h3~0.a1-0.s3-1.h2~2": nodes,
		"":                    one,
	} {
		steps, err := byhand.ParseScript(text, s)
		if err != nil || byhand.Script(steps) != text {
			t.Errorf("%v, %v: %s", steps, err, byhand.Script(steps))
		}
	}
	for wrong, reason := range map[string]byhand.Reason{
		"a3~0": byhand.WrongMove, "a0~0": byhand.WrongMove, "a01~0": byhand.WrongMove, "a~0": byhand.WrongMove, "x1~0": byhand.WrongMove, "z1~0": byhand.WrongMove,
		"h1~0": byhand.WrongMove, "~0": byhand.WrongMove, "n3~0": byhand.WrongMove, "a+1~0": byhand.WrongMove,
		"a1": byhand.WrongStep, "a1~": byhand.WrongStep, "a1~-1": byhand.WrongStep, "a1~x": byhand.WrongStep, "a1~99999999999": byhand.WrongStep,
		".": byhand.WrongStep, "a1~0.": byhand.WrongStep, "a1~600001": byhand.WrongTime,
		strings.Repeat("a1~0.", 100) + "a1~0": byhand.TooManySteps, strings.Repeat("a", 5000): byhand.WrongStep,
	} {
		_, err := byhand.ParseScript(wrong, one)
		wantReason(t, fmt.Sprintf("%.40q", wrong), err, reason)
	}
	for _, wrong := range []string{"h4~0", "f~0", "l~0"} {
		_, err := byhand.ParseScript(wrong, nodes)
		wantReason(t, wrong, err, byhand.WrongMove)
	}
}

func wantReason(t *testing.T, what string, err error, reason byhand.Reason) {
	t.Helper()
	e, ok := errors.AsType[*byhand.Error](err)
	if !ok || e.Reason != reason || !errors.Is(err, byhand.ErrInvalid) {
		t.Errorf("%s: %v; want the reason %s", what, err, reason)
		return
	}
	if len(err.Error()) > 300 {
		t.Errorf("%s: a text of %d characters", what, len(err.Error()))
	}
}

func TestSetup(t *testing.T) {
	for _, m := range byhand.Mechanisms() {
		good := byhand.Setup{
			Lock: m.Name, Processes: 2, Lease: 5, Wait: 0, Renew: m.Ends == lock.EndsUnlessRenewed, Replica: m.Store == lock.InRedis,
		}
		if err := good.Validate(); err != nil || len(good.Needs()) == 0 {
			t.Errorf("%s: %v, %v", m.Name, err, good.Needs())
		}
	}
	for name, c := range map[string]struct {
		change func(*byhand.Setup)
		reason byhand.Reason
	}{
		"lock":        {func(s *byhand.Setup) { s.Lock = "other" }, byhand.WrongLock},
		"no lock":     {func(s *byhand.Setup) { s.Lock = "" }, byhand.WrongLock},
		"one process": {func(s *byhand.Setup) { s.Processes = 1 }, byhand.WrongProcesses},
		"processes":   {func(s *byhand.Setup) { s.Processes = 5 }, byhand.WrongProcesses},
		"no lease":    {func(s *byhand.Setup) { s.Lease = 0 }, byhand.WrongLease},
		"lease":       {func(s *byhand.Setup) { s.Lease = 61 }, byhand.WrongLease},
		"wait":        {func(s *byhand.Setup) { s.Wait = 61 }, byhand.WrongWait},
		"less":        {func(s *byhand.Setup) { s.Wait = -1 }, byhand.WrongWait},
		"renewal":     {func(s *byhand.Setup) { s.Renew = true }, byhand.WrongRenewal},
		"replica":     {func(s *byhand.Setup) { s.Lock, s.Replica = "red", true }, byhand.WrongReplica},
	} {
		s := byhand.Setup{Lock: "lua", Processes: 2, Lease: 5, Wait: 0}
		c.change(&s)
		wantReason(t, name, s.Validate(), c.reason)
	}
}

// Each fault that a store does not support has a reason.
func TestOff(t *testing.T) {
	for _, c := range []struct {
		setup byhand.Setup
		off   map[byhand.Action]byhand.Why
	}{
		{byhand.Setup{Lock: "lua"}, map[byhand.Action]byhand.Why{byhand.FailOver: byhand.WhyNoReplica}},
		{byhand.Setup{Lock: "lua", Replica: true}, map[byhand.Action]byhand.Why{}},
		{byhand.Setup{Lock: "setnx", Replica: true}, map[byhand.Action]byhand.Why{byhand.Expire: byhand.WhyNoLease}},
		{byhand.Setup{Lock: "red"}, map[byhand.Action]byhand.Why{byhand.FailOver: byhand.WhyNodes}},
		{byhand.Setup{Lock: "zk-node"}, map[byhand.Action]byhand.Why{byhand.FailOver: byhand.WhyOneServer}},
		{byhand.Setup{Lock: "mysql-get-lock"}, map[byhand.Action]byhand.Why{
			byhand.FailOver: byhand.WhyOneServer, byhand.Expire: byhand.WhyConnection, byhand.Delete: byhand.WhyConnection,
		}},
	} {
		off := c.setup.Off()
		for _, a := range []byhand.Action{byhand.Delete, byhand.Expire, byhand.FailOver} {
			fail.Unequal(t, off[a], c.off[a], "%s: %q is off because of", c.setup.Lock, a)
		}
	}
}
