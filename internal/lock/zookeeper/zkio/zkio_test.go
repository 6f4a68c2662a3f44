package zkio_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestNameIsReversible(t *testing.T) {
	for _, key := range []string{
		"seat", "voucher:7", "a/b", "/", ".", "..", "...", "a.b", "座位 1", "100%", "%2F", "a!b", "a*b", "\x00\n",
		strings.Repeat("ü", 128),
	} {
		name := zkio.Name(key)
		if strings.ContainsAny(name, "/!*") || name == "." || name == ".." {
			t.Errorf("Name(%q) = %q, not the name of one node", key, name)
		}
		if got, err := url.PathUnescape(name); got != key || err != nil {
			t.Errorf("%q is of the key %q, %v, want %q", name, got, err, key)
		}
	}
}

func TestRecordIsReadBack(t *testing.T) {
	want := zkio.NewRecord("id", "owner", time.Minute)
	got, err := zkio.ParseRecord(want.Bytes())
	if got != want || err != nil {
		t.Errorf("ParseRecord = %+v, %v, want %+v", got, err, want)
	}
	if ttl := got.TTL(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("TTL = %v, want up to a minute", ttl)
	}
	fail.Unequal(t, zkio.NewRecord("id", "owner", 0).TTL(), lock.NoExpiry, "TTL without a lease")
	for _, data := range []string{"", "{}", "not a lock", `{"owner":"o"}`} {
		fail.Unless(t, fail.Of(zkio.ParseRecord([]byte(data))), lock.ErrWrongKind, "ParseRecord(%q)", data)
	}
}

func TestConfigIsValidated(t *testing.T) {
	servers := []string{"127.0.0.1:1"}
	for name, c := range map[string]zkio.Config{
		"no server":                      {},
		"a session that is too short":    {Servers: servers, SessionTimeout: time.Millisecond},
		"a session of a day":             {Servers: servers, SessionTimeout: 24 * time.Hour},
		"a negative command timeout":     {Servers: servers, CommandTimeout: -1},
		"a command as long as a session": {Servers: servers, SessionTimeout: time.Second, CommandTimeout: time.Second},
	} {
		fail.Unless(t, fail.Of(zkio.Open(c)), lock.ErrInvalid, "%s: Open", name)
	}
	fail.If(t, fail.Of(zkio.Open(zkio.Config{Servers: servers})), "Open with the defaults")
}
