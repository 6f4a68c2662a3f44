package main

import (
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
}

func openEmbedded() (*embedded, error) {
	dir, err := os.MkdirTemp("", "seckill-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the embedded database: %w", err)
	}
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true) // else a key's time to live runs down only when told to
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	return &embedded{dir: dir, redis: mini}, nil
}

// sqlite is the path of the database file.
func (e *embedded) sqlite() string { return filepath.Join(e.dir, "seckill.db") }

func (e *embedded) close() error {
	e.redis.Close()
	return os.RemoveAll(e.dir)
}
