// Package embedded replaces the real servers when none are configured: a file for SQLite and Redis servers inside the
// process (miniredis). It is for trying the service out. Its data is gone when the service stops, and it shows nothing
// about how real servers fail.
package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Servers are the embedded servers of one process.
type Servers struct {
	dir   string
	redis *Redis
	nodes []*Redis
}

// nodeCount is the number of independent Redis servers: the smallest number that tolerates the failure of one.
const nodeCount = 3

// Open starts the servers.
func Open() (*Servers, error) {
	dir, err := os.MkdirTemp("", "seckill-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the embedded database: %w", err)
	}
	s := &Servers{dir: dir}
	for i := range 1 + nodeCount {
		server, err := NewRedis()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the embedded Redis: %w", err), s.Close())
		}
		if i == 0 {
			s.redis = server
		} else {
			s.nodes = append(s.nodes, server)
		}
	}
	return s, nil
}

// SQLite is the path of the database file.
func (s *Servers) SQLite() string { return filepath.Join(s.dir, "seckill.db") }

// Redis is the server for orders and locks.
func (s *Servers) Redis() *Redis { return s.redis }

// Nodes are independent servers, for the locks that use several.
func (s *Servers) Nodes() []*Redis { return s.nodes }

// Close stops the servers and removes their data.
func (s *Servers) Close() error {
	if s.redis != nil {
		s.redis.Close()
	}
	for _, node := range s.nodes {
		node.Close()
	}
	return os.RemoveAll(s.dir)
}
