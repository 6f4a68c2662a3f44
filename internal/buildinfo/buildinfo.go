// Package buildinfo says which build of the project a process runs: its version, the commit that it was built from and
// the Go that built it.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Version is the version of the project. The container image, docker-compose.yml, deploy/kubernetes and CHANGELOG.md
// name the same one.
const Version = "0.1.0"

// The linker sets commit for a build that has no git history to look at, such as that of the container image:
//
//	go build -ldflags "-X seckill/internal/buildinfo.commit=…"
//
// Nothing else writes it.
var commit string

// unknown stands for what a build does not know about itself.
const unknown = "unknown"

// Info describes a build.
type Info struct {
	Version string // [Version]
	Commit  string // with "+dirty" if files had been changed; "unknown" without git
	Go      string // such as go1.26.1
}

// Read returns the description of the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describe(build, commit)
}

// describe prefers what the linker was told to what the go command noted.
func describe(build *debug.BuildInfo, commit string) Info {
	var revision, dirty string
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision != "" {
		revision += dirty
	}
	return Info{
		Version: Version,
		Commit:  cmp.Or(commit, revision, unknown),
		Go:      build.GoVersion,
	}
}

// Line describes the build in one line, which begins with the name of the program.
func (i Info) Line(program string) string {
	return fmt.Sprintf("%s %s, commit %s, %s %s/%s", program, i.Version, i.Commit, i.Go, runtime.GOOS, runtime.GOARCH)
}

// Metric returns seckill_build_info. Its value is always 1; the labels are what it says.
func (i Info) Metric() prometheus.Collector {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_build_info", Help: "The build that the process runs; always 1.",
		ConstLabels: prometheus.Labels{"version": i.Version, "commit": i.Commit, "go_version": i.Go},
	})
	gauge.Set(1)
	return gauge
}
