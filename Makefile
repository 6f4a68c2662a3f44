# make help tells what there is. Everything works from a clean checkout with Go alone; what else a target needs, it
# installs (test, on Debian and Ubuntu) or builds from a Go module (lint, k6). (The benchmarks
# want servers, and bench wants wrk; make infra installs the servers.)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PKG ?= ./...
RUN ?= .
COUNT ?= 20
ARGS ?=
BENCH ?=
K6_VERSION ?= v1.8.1

# Some load tests are modules of their own, so that what they compare with stays out of the project's go.mod.
MODULES := . $(patsubst %/go.mod,%,$(wildcard loadtest/*/go.mod))
# A PKG that names packages names those of the main module.
TESTED = $(if $(filter-out ./...,$(PKG)),.,$(MODULES))

# The race detector links with C. Asked when a test runs, after infra may have installed the compiler.
RACE = $$(command -v "$${CC:-gcc}" >/dev/null && echo -race || echo "no C compiler: the race detector is off" >&2)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PKG=%s RUN=%s COUNT=%s ARGS="flags of run, lab and bench-locks"\n' '$(PKG)' '$(RUN)' '$(COUNT)'

.PHONY: run
run: ## Start the service with everything embedded, on loopback
	go run ./cmd/api $(ARGS)

.PHONY: lab
lab: ## Run the laboratory: make lab ARGS="tokens --users 10"
	go run ./cmd/lab $(ARGS)

.PHONY: build
build: ## Build bin/api and bin/lab
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: k6
k6: bin/k6 ## Build bin/k6, the load generator, from its Go module

bin/k6: Makefile
	GOBIN="$(CURDIR)/bin" go install go.k6.io/k6@$(K6_VERSION)
	@touch $@

.PHONY: infra
infra: ## Make sure that redis-server, MariaDB, MySQL, ZooKeeper and Chromium are installed; starts none of them
	scripts/infra.sh

.PHONY: test
test: infra ## Run every test, with real servers on free ports
	@# -count=1: what a server did the last time proves nothing about now.
	@set -e; for module in $(TESTED); do (set -x; cd "$$module" && go test $(RACE) -count=1 -timeout 10m -run '$(RUN)' $(PKG)); done

.PHONY: test-short
test-short: ## Run what is quick, with whatever servers are there
	go test -short -timeout 5m -run '$(RUN)' $(PKG)

.PHONY: soak
soak: PKG = ./internal/lock/... ./internal/idworker/... ./internal/order/...
soak: ## Repeat the concurrency tests COUNT times under the race detector
	go test $(RACE) -count $(COUNT) -timeout 60m -run '$(RUN)' $(PKG)

.PHONY: bench
bench: ## Measure the flow admission beside a bare gin handler: one table, 3 minutes; a part of it with BENCH=sold-out
	@command -v wrk >/dev/null || { echo "make bench needs wrk: apt-get install wrk" >&2; exit 1; }
	go test -run '^$$' -bench '^BenchmarkFastPath$$/$(patsubst /%,%,$(BENCH))' -benchtime 1x -timeout 30m ./loadtest

.PHONY: bench-go
bench-go: ## Run the Go benchmarks: make bench-go PKG=./internal/admission
	@set -e; for module in $(TESTED); do (cd "$$module" && go test -run '^$$' -bench '$(RUN)' -benchmem $(PKG)); done

.PHONY: bench-locks
bench-locks: ## Measure reentrant, fair, fenced and lua beside other libraries: make bench-locks ARGS="-only one-key" (all: 20 minutes)
	cd loadtest/locks && go run . $(ARGS)

.PHONY: lint
lint: bin/golangci-lint ## Check the code, the import rule included
	@set -e; for module in $(MODULES); do (set -x; cd "$$module" && "$(CURDIR)/bin/golangci-lint" run --config "$(CURDIR)/.golangci.yml" ./...); done

.PHONY: lint-fix
lint-fix: bin/golangci-lint ## Format the code and fix what can be fixed by itself
	@set -e; for module in $(MODULES); do (set -x; cd "$$module"; \
		"$(CURDIR)/bin/golangci-lint" fmt --config "$(CURDIR)/.golangci.yml"; \
		"$(CURDIR)/bin/golangci-lint" run --config "$(CURDIR)/.golangci.yml" --fix ./...); done

# The linter is a module of its own: its two hundred dependencies stay out of the project's. Its first build takes minutes.
bin/golangci-lint: tools/golangci-lint/go.mod tools/golangci-lint/go.sum
	go build -C tools/golangci-lint -o "$(CURDIR)/$@" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are tidy
	@set -e; for module in $(MODULES); do (set -x; cd "$$module" && go mod tidy -diff); done

.PHONY: clean
clean: ## Remove what make has built; MySQL's folder (scripts/mysql-root.sh --path) stays
	rm -rf bin loadtest/out
