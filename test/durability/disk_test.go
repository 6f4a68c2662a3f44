package durability

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// disk holds the append-only file of a Redis. It knows which part of the file would survive a power failure. SIGKILL
// alone loses nothing that was written: the operating system writes it to the disk later.
type disk struct {
	t      *testing.T
	synced string // the file in which testdata/synced.c writes down the size
	redis  *testkit.RedisServer
}

// newDisk starts a Redis for this test alone.
func newDisk(t *testing.T, args ...string) *disk {
	t.Helper()
	d := &disk{t: t, synced: filepath.Join(t.TempDir(), "synced")}
	d.redis = testkit.NewRedisEnv(t, []string{"SYNCED=" + d.synced, testkit.Preload(t, "testdata/synced.c")}, args...)
	return d
}

// file returns the path of the append-only file; "" if there is none.
func (d *disk) file() string {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(d.redis.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(found) > 1 {
		d.t.Fatalf("append-only files %v, %v", found, err)
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// sizes returns how many bytes were written, and how many of them would survive a power failure.
func (d *disk) sizes() (written, safe int64) {
	d.t.Helper()
	info, err := os.Stat(d.file())
	fail.NowIf(d.t, err)
	text, err := os.ReadFile(d.synced)
	if os.IsNotExist(err) { // nothing was ever brought to the disk
		return info.Size(), 0
	}
	if err == nil {
		safe, err = strconv.ParseInt(string(text), 10, 64)
	}
	fail.NowIf(d.t, err)
	return info.Size(), safe
}

// sinceSync returns the time since the file last reached the disk.
func (d *disk) sinceSync() time.Duration {
	d.t.Helper()
	info, err := os.Stat(d.synced)
	fail.NowIf(d.t, err)
	return time.Since(info.ModTime())
}

// slow makes the disk slow, or normal again.
func (d *disk) slow(is bool) {
	d.t.Helper()
	name := d.synced + ".slow"
	err := os.Remove(name)
	if is {
		err = os.WriteFile(name, nil, 0o600)
	}
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
}

// crash kills the server. If machine is set, it also removes what had not reached the disk, as a power failure does. It
// returns the number of bytes removed.
func (d *disk) crash(machine bool) (gone int64) {
	d.t.Helper()
	d.redis.Kill()
	if !machine {
		return 0
	}
	written, safe := d.sizes()
	fail.NowIf(d.t, os.Truncate(d.file(), safe))
	return written - safe
}
