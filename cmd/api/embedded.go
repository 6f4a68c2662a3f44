package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alicebob/miniredis/v2"
)

// embedded is what stands in for the servers when none are given: a file for
// SQLite and a Redis inside the process. It is for trying the service out. It is
// gone at the stop, and shows nothing about how the real servers fail.
type embedded struct {
	dir   string
	redis *miniredis.Miniredis
	// nodes stand in for independent servers, for the locks that ask several.
	nodes []*miniredis.Miniredis
}

// embeddedNodes is how many of them: the fewest of which one may fail.
const embeddedNodes = 3

func openEmbedded() (*embedded, error) {
	dir, err := os.MkdirTemp("", "seckill-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the embedded database: %w", err)
	}
	e := &embedded{dir: dir}
	for i := range 1 + embeddedNodes {
		mini := miniredis.NewMiniRedis()
		mini.ClockTTL(true) // else a key's time to live runs down only when told to
		if err := mini.StartAddr("127.0.0.1:0"); err != nil {
			return nil, errors.Join(fmt.Errorf("start the embedded Redis: %w", err), e.close())
		}
		if i == 0 {
			e.redis = mini
		} else {
			e.nodes = append(e.nodes, mini)
		}
	}
	return e, nil
}

// sqlite is the path of the database file.
func (e *embedded) sqlite() string { return filepath.Join(e.dir, "seckill.db") }

// nodeAddrs are the addresses of the nodes.
func (e *embedded) nodeAddrs() []string {
	var addrs []string
	for _, node := range e.nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

func (e *embedded) close() error {
	if e.redis != nil {
		e.redis.Close()
	}
	for _, node := range e.nodes {
		node.Close()
	}
	return os.RemoveAll(e.dir)
}
