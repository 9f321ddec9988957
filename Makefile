# Targets: build test e2e lint fmt bench demo fuzz cover clean. `make test` is what to run before a change is proposed.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Real brokers are started by tests of several packages and share the machine's cores with them: two packages at a
# time keep both cores busy and leave the brokers fast enough for the tests' patience.
TEST_P ?= 2
# Further flags for go test; .ci/run passes -v, which its count needs.
TESTFLAGS ?=

CACHE := $(CURDIR)/.cache
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: build test e2e check fmt fmt-check vet lint bench demo fuzz cover clean

build:
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/lockstep ./cmd/lockstep

# The scenarios in e2e run lockstep as a process; LOCKSTEP_RACE builds that one with the race detector as well.
test: check
	LOCKSTEP_RACE=1 go test -race -p $(TEST_P) -timeout 12m $(TESTFLAGS) ./...

# The long scenarios, which are the tests that ask for it by kafkatest.Long: crashes, cuts and frozen processes against
# real brokers. One package at a time, since they measure time, and without the race detector, which `make test` has:
# comparing what brokers hold costs several times as much with it.
LONG_FILES = $(shell grep -rl --include='*_test.go' --exclude-dir=.cache 'Long(t)' .)
LONG_TESTS = $(shell awk '/^func Test/ { name = $$2; sub(/[^A-Za-z0-9_].*/, "", name) } /[ \t.]Long.t./ { print name }' $(LONG_FILES) | sort -u)
empty :=
e2e:
	LOCKSTEP_E2E=1 go test -p 1 -count=1 -timeout 40m $(TESTFLAGS) \
		-run '^($(subst $(empty) $(empty),|,$(strip $(LONG_TESTS))))$$' $(sort $(dir $(LONG_FILES)))

check: fmt-check vet lint

fmt:
	gofmt -s -w $(GOFILES)

GOFILES = $(shell find . -name '*.go' -not -path './.cache/*')

fmt-check:
	@bad=$$(gofmt -s -l $(GOFILES)); if [[ -n $$bad ]]; then \
		echo "not formatted (make fmt):"; echo "$$bad"; exit 1; fi

vet:
	go vet ./...
	go vet -tags failpoint ./...

lint: $(GOLANGCI)
	GOLANGCI_LINT_CACHE=$(CACHE)/golangci $(GOLANGCI) run ./...

# The tool is built with this Go, from its module, into the project's own cache folder.
$(GOLANGCI):
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CACHE)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(CACHE)/bin/golangci-lint $@

bench:
	go run ./bench

demo:
	go run ./cmd/lockstep demo

# Every fuzz target for FUZZTIME each. Findings land in testdata/fuzz beside the target and are kept as test cases.
FUZZTIME ?= 20s
fuzz:
	@for pkg in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

cover:
	@mkdir -p $(CACHE)
	go test -p $(TEST_P) -coverprofile=$(CACHE)/cover.out -coverpkg=./... ./...
	go tool cover -func=$(CACHE)/cover.out | tail -n 1
	go tool cover -html=$(CACHE)/cover.out -o $(CACHE)/cover.html

clean:
	rm -rf bin
