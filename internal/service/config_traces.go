package service

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"seckill/internal/telemetry"
)

// The variables that enable traces. OpenTelemetry defines them: the first is the base of the URLs of all signals, the
// second the whole URL for traces, and wins.
const (
	tracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesURL      = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// tracesConfig is where traces are sent; "" for nowhere.
type tracesConfig struct {
	url      string
	variable string // that says so
}

// takeTraces reads the variables and removes them from env.
func takeTraces(env map[string]string) tracesConfig {
	base, whole := env[tracesEndpoint], env[tracesURL]
	delete(env, tracesEndpoint)
	delete(env, tracesURL)
	switch {
	case whole != "":
		return tracesConfig{whole, tracesURL}
	case base != "":
		return tracesConfig{strings.TrimRight(base, "/") + telemetry.TracesPath, tracesEndpoint}
	}
	return tracesConfig{}
}

func startTracing(ctx context.Context, to tracesConfig, log *slog.Logger) (*telemetry.Tracing, error) {
	tracing, err := telemetry.Start(ctx, to.url, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.variable, err)
	}
	return tracing, nil
}
