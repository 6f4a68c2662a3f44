package testkit

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The configuration of every server here. The tick is the interval at which a server checks for expired
// sessions, so a session lives for up to one tick longer than its timeout.
const (
	zooKeeperTick       = 100 * time.Millisecond
	zooKeeperMinSession = 400 * time.Millisecond
	zooKeeperMaxSession = time.Minute
)

// zooKeeperAnswer is the timeout of one readiness check.
const zooKeeperAnswer = time.Second

// ZooKeeperServer is a standalone ZooKeeper server of one test. It accepts session timeouts from 400 ms to
// a minute. Its methods fail that test, so those that can fail (Restart, Conn) must be called from the
// test's own goroutine. After Resume a session whose timeout has passed may be expired; only a restart gives
// every session a full timeout again.
type ZooKeeperServer struct{ server[*zooKeeperProcess] }

// ZooKeeper returns the ZooKeeper server that all tests of this binary share. Use nodes below a path of
// your own, such as a [KeyPrefix].
func ZooKeeper(t TB) *ZooKeeperServer {
	t.Helper()
	process, err := binary.zookeeper.get(startZooKeeper)
	check(t, err)
	return &ZooKeeperServer{server[*zooKeeperProcess]{t, process, true}}
}

// NewZooKeeper starts a ZooKeeper server for this test alone and stops it at the end of the test.
func NewZooKeeper(t TB) *ZooKeeperServer {
	t.Helper()
	process, err := startZooKeeper()
	check(t, err)
	closeAtEnd(t, process)
	return &ZooKeeperServer{server[*zooKeeperProcess]{t, process, false}}
}

// Dir returns the folder with the server's configuration and data.
func (s *ZooKeeperServer) Dir() string { return s.process.dir }

// Conn returns a client that has a session with the given timeout. It is closed at the end of t.
func (s *ZooKeeperServer) Conn(t TB, session time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{s.Addr()}, session, zk.WithLogger(discardZKLogger{}))
	if err != nil {
		t.Fatalf("testkit: connect to ZooKeeper: %v", err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // the driver closes it when its goroutines have ended
		}
	})
	deadline := time.After(readyTimeout)
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-deadline:
			t.Fatalf("testkit: no ZooKeeper session at %s within %v", s.Addr(), readyTimeout)
		}
	}
	return conn
}

// discardZKLogger drops the driver's log lines.
type discardZKLogger struct{}

func (discardZKLogger) Printf(string, ...any) {}

// zooKeeperProcess is a Java process that runs a ZooKeeper server.
type zooKeeperProcess struct {
	home
	java      string
	classPath string
}

func (*zooKeeperProcess) name() string { return "ZooKeeper" }

const (
	zooKeeperHow = "apt-get install zookeeper default-jre-headless, brew install zookeeper, SECKILL_TEST_ZOOKEEPER=<folder of a ZooKeeper release>, or make infra"
	zooKeeperVar = "SECKILL_TEST_ZOOKEEPER"
)

func startZooKeeper() (*zooKeeperProcess, error) {
	java, classPath, err := locateZooKeeper()
	if err != nil {
		return nil, err
	}
	s := &zooKeeperProcess{java: java, classPath: classPath}
	return s, s.settle(s, "", func() error { return nil })
}

// locateZooKeeper finds Java and ZooKeeper's jars.
func locateZooKeeper() (java, classPath string, err error) {
	if java, err = lookUp("java", zooKeeperHow); err != nil {
		return "", "", err
	}
	classPath, err = zooKeeperClassPath()
	return java, classPath, err
}

// zooKeeperClassPath finds the jars: those of the release that SECKILL_TEST_ZOOKEEPER names; else Debian's
// main jar, whose manifest names the others; else those of a release in one of the usual folders.
func zooKeeperClassPath() (string, error) {
	homes := []string{"/opt/zookeeper", "/opt/homebrew/opt/zookeeper/libexec", "/usr/local/opt/zookeeper/libexec"}
	if home := os.Getenv(zooKeeperVar); home != "" {
		homes = []string{home}
	} else if jars, _ := filepath.Glob("/usr/share/java/zookeeper.jar"); len(jars) > 0 {
		return jars[0], nil
	}
	for _, home := range homes {
		inLib, _ := filepath.Glob(filepath.Join(home, "lib", "*.jar")) // the only possible error is a bad pattern
		above, _ := filepath.Glob(filepath.Join(home, "*.jar"))
		if jars := append(inLib, above...); len(jars) > 0 {
			return strings.Join(jars, string(os.PathListSeparator)), nil
		}
	}
	return "", &MissingError{Server: "ZooKeeper's jar", How: zooKeeperHow}
}

func (s *zooKeeperProcess) restart() error {
	config := filepath.Join(s.dir, "zoo.cfg")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	return s.run(Command{Path: s.java, Dir: s.dir, Args: []string{
		"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // small, and starts fast
		"-Dzookeeper.forceSync=no", // written data survives SIGKILL; no test cuts the power
		"-Dzookeeper.preAllocSize=1024",
		"-Dznode.container.checkIntervalMs=1000", // otherwise empty containers stay for a minute
		"-cp", s.classPath, "org.apache.zookeeper.server.ZooKeeperServerMain", config,
	}}, s.ready)
}

func (s *zooKeeperProcess) config() string {
	return strings.Join([]string{
		"dataDir=" + s.data(),
		"clientPort=" + strconv.Itoa(s.port),
		"clientPortAddress=127.0.0.1",
		"maxClientCnxns=0",
		"tickTime=" + strconv.FormatInt(zooKeeperTick.Milliseconds(), 10),
		"minSessionTimeout=" + strconv.FormatInt(zooKeeperMinSession.Milliseconds(), 10),
		"maxSessionTimeout=" + strconv.FormatInt(zooKeeperMaxSession.Milliseconds(), 10),
		"admin.enableServer=false",
		"4lw.commands.whitelist=conf,srvr",
		"",
	}, "\n")
}

func (s *zooKeeperProcess) data() string { return filepath.Join(s.dir, "data") }

// ready asks the server for its data folder: the answer could come from another server on the same port,
// and a server that is loading its data answers that it is not serving.
func (s *zooKeeperProcess) ready(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	// A server that is still starting may accept the connection and never answer on it.
	if err := conn.SetDeadline(time.Now().Add(zooKeeperAnswer)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "conf"); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if !strings.Contains(string(answer), "dataDir="+s.data()) {
		return fmt.Errorf("not the server that was started: %q", answer)
	}
	return nil
}
