package service

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/logbuffer"
)

// startLog starts the log: one goroutine writes it, so that nobody waits for its reader. The writer must be closed.
func startLog(cfg Config, to io.Writer) (*slog.Logger, *logbuffer.Writer) {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	lines := logbuffer.New(to, func(dropped int64) []byte {
		var line bytes.Buffer
		slog.New(slog.NewJSONHandler(&line, options)).Warn("lines of the log were dropped, since nobody read it in time", "lines", dropped)
		return line.Bytes()
	})
	log := slog.New(slog.NewJSONHandler(lines, options))
	cfg.warn(log)
	return log, lines
}

func droppedLines(lines *logbuffer.Writer) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "seckill_log_lines_dropped_total", Help: "Lines of the log that were dropped, since nobody read it in time.",
	}, func() float64 { return float64(lines.Dropped()) })
}

// complain prints why the program ends. It does not wait for a terminal or a pipe that nobody reads.
func complain(err error) {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(os.Stderr, "api: "+err.Error())
	}()
	select {
	case <-printed:
	case <-time.After(time.Second):
	}
}
