package database

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gorm.io/gorm/logger"
)

// logSlow logs a statement that took too long. It leaves out the parameters, which are users' data.
func (d *DB) logSlow(ctx context.Context, query string, began time.Time) {
	if elapsed := time.Since(began); d.config.SlowQuery >= 0 && elapsed >= d.config.SlowQuery {
		d.config.Logger.LogAttrs(ctx, slog.LevelWarn, "slow statement",
			slog.String("sql", shorten(query)), slog.Duration("elapsed", elapsed))
	}
}

// maxLogged is the largest part of a statement in the log, in bytes. A statement that writes 250 orders has 6 kB.
const maxLogged = 500

func shorten(query string) string {
	if len(query) <= maxLogged {
		return query
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(query[:maxLogged], ""), len(query))
}

// statementLog logs slow statements of gorm in the same way. It does not log errors, because the caller gets them.
type statementLog struct {
	log  *slog.Logger
	slow time.Duration
}

var (
	_ logger.Interface = (*statementLog)(nil)
	_ interface {
		ParamsFilter(ctx context.Context, sql string, params ...any) (string, []any)
	} = (*statementLog)(nil)
)

// LogMode implements gorm's logger. slog decides on the level.
func (l *statementLog) LogMode(logger.LogLevel) logger.Interface { return l }

// Info implements gorm's logger.
func (l *statementLog) Info(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, fmt.Sprintf(format, args...))
}

// Warn implements gorm's logger.
func (l *statementLog) Warn(ctx context.Context, format string, args ...any) {
	l.log.WarnContext(ctx, fmt.Sprintf(format, args...))
}

// Error implements gorm's logger.
func (l *statementLog) Error(ctx context.Context, format string, args ...any) {
	l.log.ErrorContext(ctx, fmt.Sprintf(format, args...))
}

// Trace implements gorm's logger. gorm calls it after every statement.
func (l *statementLog) Trace(ctx context.Context, began time.Time, statement func() (string, int64), _ error) {
	elapsed := time.Since(began)
	if l.slow < 0 || elapsed < l.slow {
		return
	}
	query, rows := statement()
	l.log.LogAttrs(ctx, slog.LevelWarn, "slow statement",
		slog.String("sql", shorten(query)), slog.Duration("elapsed", elapsed), slog.Int64("rows", rows))
}

// ParamsFilter keeps the parameters out of the log.
func (l *statementLog) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}
