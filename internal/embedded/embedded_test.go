package embedded

import (
	"os"
	"testing"

	"seckill/internal/testkit/fail"
)

// What the servers do is tested in simulate, which builds on them.
func TestServersAreOpenUntilClosed(t *testing.T) {
	servers, err := Open()
	fail.NowIf(t, err)
	fail.Unequal(t, len(servers.Nodes()), 3, "nodes")
	all := append(servers.Nodes(), servers.Redis())
	for _, server := range all {
		if conn, err := server.Dial(t.Context(), "tcp", ""); err != nil {
			t.Error(err)
		} else {
			_ = conn.Close()
		}
	}
	folder := servers.dir
	fail.NowIf(t, servers.Close())
	for _, server := range all {
		if _, err := server.Dial(t.Context(), "tcp", ""); err == nil {
			t.Error("Dial succeeded after the server was closed")
		}
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}
