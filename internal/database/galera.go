package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// cluster is what the connections have found behind the address: one server, a node of a Galera cluster, or a gate of
// Vitess.
type cluster struct {
	log            *slog.Logger
	once, onceGate sync.Once
	member, gate   atomic.Bool
}

// joined is called for each connection to a node of the cluster.
func (c *cluster) joined(ctx context.Context, name, node string) {
	c.member.Store(true)
	c.once.Do(func() {
		c.log.LogAttrs(ctx, slog.LevelInfo, "the database is a node of a Galera cluster: reads wait for what other nodes have committed (wsrep_sync_wait)",
			slog.String("cluster", name), slog.String("node", node))
	})
}

// clusterAttempts multiplies the attempts of a transaction on a cluster. Nodes that write to the same row abort each
// other's transactions: with two nodes every second attempt. Such an attempt takes milliseconds. After clusterFor a
// cluster has no more attempts than other servers: each attempt may wait for a node that applies nothing, until
// repl.causal_read_timeout.
const (
	clusterAttempts = 4
	clusterFor      = 5 * time.Second
)

// maxAttempts bounds the attempts of a transaction that collides.
func (d *DB) maxAttempts() int {
	if d.galera != nil && d.galera.member.Load() {
		return clusterAttempts * d.config.MaxAttempts
	}
	return d.config.MaxAttempts
}

// serverVariables reads the variables that tell the kinds of servers apart, and one variable that not all of them can
// set. A server without Galera lacks Galera's variables.
func serverVariables(ctx context.Context, conn driver.QueryerContext) (map[string]string, error) {
	const query = "SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'sql_select_limit', 'wsrep_on', 'wsrep_cluster_name', 'wsrep_node_name')"
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	variables := make(map[string]string)
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return variables, rows.Close()
		} else if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		variables[text(row[0])] = text(row[1])
	}
}

// text returns a string value, which the driver may return as bytes.
func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	s, _ := v.(string)
	return s
}
