# make help lists the targets. Everything works from a clean checkout with only Go: a target installs what else it needs
# (test, on Debian and Ubuntu) or builds it from a Go module (lint, k6, vegeta). Exceptions are the benchmarks, which need
# servers, and bench, which needs wrk; make infra installs the servers.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PKG ?= ./...
RUN ?= .
COUNT ?= 20
LONG ?= ^TestSoak
ARGS ?=
# The number of packages, and of tests in each, that run in parallel: more than the cores, since most of them wait.
SIDE ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
BENCH ?=
K6_VERSION ?= v1.8.1
VEGETA_VERSION ?= v12.13.0

# Some load tests are modules of their own, so that the libraries they compare with stay out of the project's go.mod, and
# so are the types of Kubernetes.
MODULES := . $(patsubst %/go.mod,%,$(wildcard loadtest/*/go.mod)) tools/kubernetes
# The packages that make soak repeats.
REPEATED ?= ./internal/lock/... ./internal/idworker ./internal/order ./internal/admission ./internal/fulfil
# If PKG names packages, they are those of the main module.
TESTED = $(if $(filter-out ./...,$(PKG)),.,$(MODULES))

# The race detector needs a C compiler. Checked when a test runs, since infra may have installed one by then.
RACE = $$(command -v "$${CC:-gcc}" >/dev/null && echo -race || echo "no C compiler: the race detector is off" >&2)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PKG=%s RUN=%s COUNT=%s SIDE=%s (parallel tests) ARGS="flags of run, lab and bench-locks"\n' '$(PKG)' '$(RUN)' '$(COUNT)' '$(SIDE)'

.PHONY: run
run: ## Start the service with everything embedded, on loopback
	go run ./cmd/api $(ARGS)

.PHONY: lab
lab: ## Run the laboratory: make lab ARGS="tokens --users 10"
	@echo "compiling the laboratory, if it has changed; the first time this takes a minute or two" >&2
	go run ./cmd/lab $(ARGS)

# With the flags of go run, which then compiles nothing again.
.PHONY: build
build: ## Build bin/api and bin/lab
	go build -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container image seckill:0.1.0, labelled with what git says
	docker build --build-arg COMMIT="$$(git rev-parse HEAD)" \
		--build-arg CREATED="$$(date -u +%Y-%m-%dT%H:%M:%SZ)" -t seckill:0.1.0 .

.PHONY: compose-test
compose-test: ## Run docker-compose.yml: every profile, faults under load, a rolling update; without an engine it makes one
	@scripts/compose-test.sh

.PHONY: k6
k6: bin/k6 ## Build bin/k6, the load generator, from its Go module

bin/k6: Makefile
	GOBIN="$(CURDIR)/bin" go install go.k6.io/k6@$(K6_VERSION)
	@touch $@

.PHONY: vegeta
vegeta: bin/vegeta ## Build bin/vegeta, which sends at a fixed rate, from its Go module

bin/vegeta: Makefile
	GOBIN="$(CURDIR)/bin" go install github.com/tsenart/vegeta/v12@$(VEGETA_VERSION)
	@touch $@

.PHONY: infra
infra: mysql valkey ## Install redis-server, Valkey, MariaDB, MySQL, ZooKeeper and Chromium if they are missing; starts none of them
	@scripts/infra.sh report

.PHONY: packages mysql valkey
packages:
	@scripts/infra.sh packages
mysql: packages
	@scripts/infra.sh mysql
valkey:
	@scripts/infra.sh valkey

# On a new machine the installation of servers mostly waits for the network and the disk. The tests' dependencies are
# compiled meanwhile: at once if there is a C compiler, since with one the standard library is compiled differently.
.PHONY: modules compiled
modules:
	@set -e; for module in $(TESTED); do (cd "$$module" && go mod download); done
compiled: modules $(if $(shell command -v "$${CC:-gcc}"),,packages)
	@set -e; for module in $(TESTED); do (cd "$$module" && go list -deps -test -f '{{if and .GoFiles (not .ForTest) (ne .Name "main")}}{{.ImportPath}}{{end}}' $(PKG) | xargs go build); done

.PHONY: ready
ready:
	@$(MAKE) --no-print-directory -j 3 infra compiled

# -count=1: a cached result proves nothing about the servers of this run. -vet=off: make lint runs go vet's checks.
# -ldflags=-w: linking a test without debugging information takes two thirds of the time.
TEST = SECKILL_TEST_SERVERS=1 go test -vet=off -ldflags=-w -p $(SIDE) -parallel $(SIDE)
# Of all packages, those that take longest begin first, beside those that mostly wait. Otherwise the run ends with one of
# them on cores that are idle.
FIRST = $(if $(filter ./...,$(PKG)),$$([ "$$module" != . ] || echo ./test/... ./internal/lab/experiments ./internal/lock/...))

.PHONY: test
test: ready ## Run every test once, with real servers on free ports
	@running=(); for module in $(TESTED); do \
		(set -x; cd "$$module" && $(TEST) -count=1 -timeout 20m -run '$(RUN)' $(FIRST) $(PKG)) & running+=($$!); done; \
	failed=0; for one in "$${running[@]}"; do wait "$$one" || failed=1; done; exit $$failed

.PHONY: race
race: ## Run the tests that need Go alone with the race detector
	go test $(RACE) -count=1 -run '$(RUN)' $(PKG)

# The long tests have names with TestSoak…; testkit.Soak skips them everywhere else. If all of them are asked for, the
# faults of make mutants are tried and the containers are tested too.
.PHONY: soak
soak: ready ## Run what needs time: rates, repetition, chaos, real leases, deliberate faults, containers
	SECKILL_TEST_SERVERS=1 SECKILL_TEST_SOAK=1 go test $(RACE) -vet=off -ldflags=-w -p 1 -count=1 -timeout 60m -v -run '$(LONG)' \
		$$(grep -rlE 'testkit\.Soak\(' --include='*_test.go' cmd internal test | xargs -n 1 dirname | sort -u | sed 's|^|./|') | grep -vE '^=== '
	$(if $(REPEATED),$(TEST) $(RACE) -count=$(COUNT) -timeout 120m -run '$(RUN)' $(REPEATED))
	$(if $(filter ^TestSoak,$(LONG)),$(MAKE) --no-print-directory mutants)
	$(if $(filter ^TestSoak,$(LONG)),@scripts/compose-test.sh)

.PHONY: mutants
mutants: ready ## Put deliberate faults into a copy of the code and show which test catches each: make mutants ARGS="-only lua"
	go run ./tools/mutants $(ARGS)

.PHONY: bench
bench: ## Compare the admission flow with a bare gin handler: one table, 4 minutes; BENCH=quick: one minute; BENCH=sold-out: a part
	@command -v wrk >/dev/null || { echo "make bench needs wrk: apt-get install wrk" >&2; exit 1; }
	go test -run '^$$' -bench '^BenchmarkFastPath$$/$(filter-out quick,$(patsubst /%,%,$(BENCH)))' -benchtime 1x -timeout 30m ./loadtest $(if $(filter quick,$(BENCH)),-quick)

.PHONY: bench-stock
bench-stock: ## Compare the ways to take from the stock: one table, 5 minutes; BENCH=quick: 3 minutes (docs/stock.md)
	go test -run '^$$' -bench '^BenchmarkStock$$' -benchtime 1x -timeout 30m ./loadtest $(if $(filter quick,$(BENCH)),-quick)

.PHONY: bench-vitess
bench-vitess: bin/vtcombo ## Compare Vitess with one and two shards with one MySQL server: one table, 10 minutes; BENCH=quick: 2 minutes (docs/scale.md)
	go test -run '^$$' -bench '^BenchmarkVitess$$' -benchtime 1x -timeout 30m ./loadtest $(if $(filter quick,$(BENCH)),-quick)

.PHONY: bench-go
bench-go: ## Run the Go benchmarks: make bench-go PKG=./internal/admission
	@set -e; for module in $(TESTED); do (cd "$$module" && go test -run '^$$' -bench '$(RUN)' -benchmem $(PKG)); done

.PHONY: bench-locks
bench-locks: ## Compare reentrant, fair, fenced, rw and lua with other libraries: make bench-locks ARGS="-only one-key" (all: 22 minutes)
	cd loadtest/locks && go run . $(ARGS)

.PHONY: lint
lint: bin/golangci-lint ## Check the code, including the import rule
	@set -e; for module in $(MODULES); do (set -x; cd "$$module" && "$(CURDIR)/bin/golangci-lint" run --config "$(CURDIR)/.golangci.yml" ./...); done

.PHONY: lint-fix
lint-fix: bin/golangci-lint ## Format the code and apply automatic fixes
	@set -e; for module in $(MODULES); do (set -x; cd "$$module"; \
		"$(CURDIR)/bin/golangci-lint" fmt --config "$(CURDIR)/.golangci.yml"; \
		"$(CURDIR)/bin/golangci-lint" run --config "$(CURDIR)/.golangci.yml" --fix ./...); done

# The linter is a module of its own, so that its two hundred dependencies stay out of the project's. Its first build takes
# minutes.
bin/golangci-lint: tools/golangci-lint/go.mod tools/golangci-lint/go.sum
	go build -C tools/golangci-lint -o "$(CURDIR)/$@" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# Vitess in one process, and its programs beside it, for tests and for a look at it; see docs/scale.md. The first build takes
# two minutes.
bin/vtcombo: tools/vitess/go.mod tools/vitess/go.sum
	go build -C tools/vitess -o "$(CURDIR)/bin/" tool
	@touch $@

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are tidy
	@set -e; for module in $(MODULES); do (set -x; cd "$$module" && go mod tidy -diff); done

.PHONY: clean
clean: ## Remove what make has built, except the folders of MySQL and Valkey (scripts/*-root.sh --path)
	rm -rf bin loadtest/out
