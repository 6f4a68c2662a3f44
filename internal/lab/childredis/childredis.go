// Package childredis is the laboratory's own Redis server, for machines without redis-server: miniredis, in a
// child process that listens on a local port. An experiment kills, pauses and restarts it as it does a
// redis-server.
//
// It has what a lock uses: keys that expire by the clock, Lua scripts, publish and subscribe. It has no
// replicas, writes nothing to disk, and its clock cannot be set: experiments about these need redis-server.
//
// The child is the calling program, started again: a program whose experiments or tests use the server calls
// [MainIfChild] first in its main or TestMain.
package childredis

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/alicebob/miniredis/v2/server"

	"seckill/internal/embedded"
	"seckill/internal/testkit"
)

// Engine names the server in results.
const Engine = "embedded (miniredis)"

// childEnv is set in the server's process.
const childEnv = "SECKILL_LAB_BUILTIN_REDIS"

// Program is the command line of the server, without its port.
func Program() (testkit.Command, error) {
	if os.Getenv(childEnv) != "" {
		return testkit.Command{}, errors.New("childredis: this process is a server itself: its main or TestMain does not call childredis.MainIfChild")
	}
	self, err := os.Executable()
	return testkit.Command{Path: self, Args: []string{"builtin-redis"}, Env: []string{childEnv + "=1"}}, err
}

// MainIfChild turns this process into a server, and does not return, if it was started by [Program].
func MainIfChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	err := serve(os.Args[2:]) // until the process is killed
	fmt.Fprintln(os.Stderr, "childredis:", err)
	os.Exit(1)
}

func serve(args []string) error {
	var port, host string
	flags := flag.NewFlagSet("builtin-redis", flag.ContinueOnError)
	flags.StringVar(&port, "port", "", "")
	flags.StringVar(&host, "bind", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	redis, err := embedded.NewRedis()
	if err != nil {
		return err
	}
	redis.SetHook(info)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		redis.Mini().Server().ServeConn(conn)
	}
}

// info answers INFO SERVER, which miniredis does not know: testkit asks which process answers at its port.
func info(client *server.Peer, command string, args ...string) (answered bool) {
	if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
		return false
	}
	client.WriteBulk(fmt.Sprintf("# Server\r\nprocess_id:%d\r\n", os.Getpid()))
	return true
}
