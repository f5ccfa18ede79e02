# latchfs. `make help` lists the targets; each is described by the text after
# its two hashes. Recipes are bash scripts: one shell a recipe, stop at the
# first error.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Where `make install` puts things. mount(8) looks for its helpers in /sbin,
# which on a merged-/usr system is SBINDIR.
DESTDIR ?=
PREFIX  ?= /usr/local
SBINDIR ?= /usr/sbin
UNITDIR ?= $(PREFIX)/lib/systemd/system

# What the tests drive, by Debian package name: the tools whose saves are
# tested, fuse3 for fusermount3, gcc for the race detector, the makers of
# filesystems for disks that fill up or lose their power. A fresh machine
# needs nothing else but Go, git and make.
TEST_PACKAGES := fuse3 gcc libc6-dev \
	acl attr btrfs-progs bzip2 curl e2fsprogs ed emacs-nox gawk gettext jq libcap2-bin logrotate moreutils mount nano neovim nodejs \
	openssh-client openssl patch perl procps python3 python3-plyvel redis-tools rsync sqlite3 strace systemd unzip vim xfsprogs xz-utils zip
BENCH_PACKAGES := bindfs
# The servers that `make test-all` only runs where they are there: they are large, and
# Debian starts some of them when they are installed.
SERVER_PACKAGES := mariadb-client-core mariadb-server-core postgresql rocksdb-tools util-linux

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.9.0
GOLANGCI_LINT := .tools/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOVULNCHECK   := .tools/govulncheck-$(GOVULNCHECK_VERSION)

INTEGRATION := ./integration
# The packages whose tests take the longest come first, or a processor waits for them at the end.
UNIT         = $$($(GO) list ./journal/commit ./fs ./lockmgr ./... | grep -v '/integration$$')
# The packages whose tests start goroutines: one processor makes a difference to them.
CONCURRENT  := ./cmd/latchfs ./fs ./fs/account ./fs/asuser ./journal/history ./journal/validate ./lockmgr/...

# The race detector needs a C compiler. An ordinary user without one gets the
# tests without it rather than none.
RACE = $$(command -v "$${CC:-cc}" >/dev/null && echo -race)
# A test binary waits at its end for reports of races that are still being written: a second by
# default, which adds up with a hundred packages.
export GORACE ?= atexit_sleep_ms=100

# Tests that the race detector makes several times slower and has nothing to find in: one
# goroutine at a time goes on. One processor makes no difference to them either.
IN_TURNS := TestMutexOrder.*|TestPowerCuts|Test(PowerFails|DaemonDies|DiskFails)InANameTransaction

FUZZTIME   ?= 10s
HICCUPS    ?= 100ms
BENCHFLAGS ?=
CURVEFLAGS ?=
COUNTERFLAGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build bin/latchfs, a static binary
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/latchfs ./cmd/latchfs

define TRY
Mounting latchfs over $(CURDIR)/data. In another terminal:

  cd $(CURDIR)/data

Two programs read a counter, think, and write it back. The second would undo the
first, and is refused:

  cat add-one                              # one of them
  bash add-one 1 & bash add-one 2; wait    # both at once
  cat .locks/why                           # why the second was refused
  bash add-one 0; cat counter              # run again, it reads the new version

A program that writes has the file to itself, and nobody waits to read:

  ( sleep 20; echo 7 ) > counter &         # writes counter for 20 s,
  cat .locks/status                        # and is shown as its holder
  cat counter                              # a reader does not wait,
  time sh -c 'echo 8 > counter'            # another writer does

Every version is kept, and everything that happened is written down:

  $(CURDIR)/bin/latchfs history counter
  tail -n 3 .locks/events.jsonl
  cat .locks/README                        # what else is there

Ctrl-C here unmounts; leave the directory in the other terminal first.

endef
export TRY

define ADD_ONE
n=$$(cat counter)            # read
sleep $$1                    # think
echo $$((n + 1)) > counter   # write
endef
export ADD_ONE

.PHONY: run
run: build ## mount over ./data (a sample is made if missing) in the foreground; Ctrl-C unmounts
	@if mkdir data 2>/dev/null || [ -d data ]; then # it is no directory while a killed daemon's mount is there
		[ -e data/counter ] || echo 1 > data/counter
		[ -e data/add-one ] || printf '%s\n' "$$ADD_ONE" > data/add-one
		[ -e data/notes.md ] || printf '# Notes\n\n- a line\n' > data/notes.md
	fi
	printf '%s\n' "$$TRY"
	exec bin/latchfs mount --foreground data

.PHONY: setup
setup: # install what the tests need (as root), or say what is missing
	@missing=
	for p in $(TEST_PACKAGES); do
		dpkg-query -W -f '$${Status}' "$$p" 2>/dev/null | grep -q 'ok installed' || missing+=" $$p"
	done
	[ -n "$$missing" ] || exit 0
	if [ "$$(id -u)" = 0 ]; then
		echo "installing what the tests drive:$$missing"
		export DEBIAN_FRONTEND=noninteractive
		apt-get -qq update
		apt-get -q install --yes --no-install-recommends $$missing | sed -nu 's/^Setting up /  /p'
	else
		echo "not installed:$$missing"
		echo "The tests name what they leave out for want of a program. To run that too, as root:"
		echo "  apt-get install$$missing"
		command -v fusermount3 >/dev/null || { echo "fusermount3 is needed to mount: apt-get install fuse3" >&2; exit 1; }
	fi

# Integration tests run in their directory: so go test shows at once what they tell.
.PHONY: test
test: setup build ## set up, then run the unit tests and the shorter integration tests, with the race detector
	@echo "the unit tests, package by package; building them takes a while"
	$(GO) test $(RACE) -p $$(($$(nproc) + 1)) -timeout 30m -skip '^($(IN_TURNS))$$' $(UNIT) # one more than there are processors: some wait for the disk
	$(GO) test -run '^(TestAgainstModel|$(IN_TURNS))$$' ./lockmgr ./fs # the model takes fewer steps above
	cd $(INTEGRATION)
	$(GO) test -count=1 -timeout 30m -short

.PHONY: test-all
test-all: test ## also the long integration tests and those without passthrough, one processor, and a little fuzzing
	$(GO) test -exec 'env GOMAXPROCS=1' -count=1 -skip '^(TestAgainstModel|$(IN_TURNS))$$' $(CONCURRENT)
	$(MAKE) --no-print-directory fuzz FUZZTIME=50x
	cd $(INTEGRATION)
	$(GO) test -count=1 -timeout 40m -rest

.PHONY: check
check: build static lint ## what to run before a commit: go.mod, formatting, vet, lint, unit tests
	$(GO) test $(UNIT)

# go.mod asks for the oldest Go that the code and its dependencies build with;
# vet names what an older standard library does not have.
.PHONY: static
static: ## what a look at the sources tells: go.mod and go.sum are tidy, gofmt and vet have no complaint
	@$(GO) mod tidy -diff || { echo "go.mod or go.sum is not tidy: run go mod tidy" >&2; exit 1; }
	unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...) | sort -u)
	[ -z "$$unformatted" ] || { echo "make fmt would change: $$unformatted" >&2; exit 1; }
	$(GO) vet ./...

.PHONY: race
race: setup ## unit tests under the race detector, on all processors and on one
	$(GO) test -race $(UNIT)
	GOMAXPROCS=1 $(GO) test -race -count=1 $(UNIT)

.PHONY: integration
integration: setup build ## only the integration tests: the built binary, real mounts, real tools
	$(GO) test -count=1 -timeout 30m -v $(INTEGRATION)

# What passes or fails by chance holds up nobody's change: it is here, and not in test-all.
.PHONY: stress
stress: setup build ## the tests of chance: races, kills and crashes at random moments, new seeds, fuzzing (an hour or so)
	export LATCHFS_STRESS=1
	$(GO) test $(RACE) -count=1 -timeout 0 $(UNIT)
	GOMAXPROCS=1 $(GO) test -count=1 -timeout 0 $(UNIT)
	$(MAKE) --no-print-directory fuzz
	$(GO) test -count=1 -timeout 0 $(INTEGRATION)

.PHONY: mutants
mutants: ## put known defects back, one at a time: the simulation has to find each
	@dir=$$(mktemp -d)
	trap 'rm -rf "$$dir"' EXIT
	for defect in fs/testdata/mutants/*.patch; do
		rm -rf "$$dir/tree" && mkdir "$$dir/tree"
		git ls-files -z go.mod go.sum cmd fs journal lockmgr | xargs -0 cp --parents -t "$$dir/tree"
		patch -s -p1 -d "$$dir/tree" <"$$defect"
		(cd "$$dir/tree" && $(GO) test -c -o "$$dir/sim.test" ./fs)
		began=$$SECONDS
		if (cd fs && "$$dir/sim.test" -test.failfast -test.run 'TestSimulation$$|TestPowerCuts$$' -seeds 3000 -first >"$$dir/out" 2>&1) || ! grep -q BROKEN "$$dir/out"; then
			echo "NOT FOUND: $$defect"
			exit 1
		fi
		echo "found after $$((SECONDS - began)) s: $$(basename "$$defect" .patch)"
	done

.PHONY: hiccups
hiccups: setup build ## the integration tests while the processors are taken away for moments (HICCUPS=100ms)
	export LATCHFS_HICCUPS=$(HICCUPS)
	$(GO) test -count=1 -timeout 90m $(INTEGRATION)

.PHONY: servers
servers: TEST_PACKAGES += $(SERVER_PACKAGES)
servers: setup build ## PostgreSQL, MariaDB, Redis, LevelDB, RocksDB on mounts, for minutes (installs the servers)
	LATCHFS_STRESS=1 $(GO) test -count=1 -timeout 60m -v -run '^TestServer' $(INTEGRATION)

.PHONY: ltp
ltp: build ## run the lock tests of the Linux Test Project, built in LTP=DIR, over a mount and over a plain directory
	@[ -n "$(LTP)" ] || { echo "LTP=DIR is missing: the directory where the Linux Test Project was built" >&2; exit 2; }
	integration/ltp.sh bin/latchfs '$(LTP)'

# An input that reaches new code is made smaller for up to a minute if nothing else is
# said: with a target that takes milliseconds that would be the whole time. go test -list
# would build the tests of every package.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=10s
	@grep -r --include='*_test.go' -o '^func Fuzz[[:alnum:]_]*' cmd fs journal lockmgr | sort | while IFS=: read -r file func; do
		echo "./$$(dirname "$$file") $${func#func }"
		$(GO) test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$(dirname "$$file")"
	done

.PHONY: bench
bench: TEST_PACKAGES += $(BENCH_PACKAGES)
bench: setup ## measure against the plain directory, go-fuse's loopback and bindfs (BENCHFLAGS=-quick)
	$(GO) test -run '^$$' -bench . -benchmem $(UNIT)
	$(GO) run ./integration/bench $(BENCHFLAGS)

.PHONY: curves
curves: TEST_PACKAGES += $(BENCH_PACKAGES)
curves: setup ## measure how the costs grow with what there is, and draw that (docs/performance; CURVEFLAGS='-only size')
	$(GO) run ./integration/bench -curves docs/performance -rounds 3 $(CURVEFLAGS)

.PHONY: counters
counters: setup build ## lose updates: 16 workers, 50 increments each, for every tool and policy; a table (COUNTERFLAGS=-counters.columns=plain,refuse)
	@table=$$(mktemp)
	trap 'rm -f "$$table"' EXIT
	LATCHFS_BINARY=$(CURDIR)/bin/latchfs $(GO) test -count=1 -timeout 60m -run '^$$' -bench '^BenchmarkCounters$$' -benchtime 1x $(INTEGRATION) \
		-counters "$$table" $(COUNTERFLAGS) >&2
	cat "$$table"

.PHONY: cover
cover: setup ## unit test coverage, by function, and cover.html
	$(GO) test -coverprofile cover.out $(UNIT)
	$(GO) tool cover -html cover.out -o cover.html
	$(GO) tool cover -func cover.out

.PHONY: lint
lint: $(GOLANGCI_LINT) ## golangci-lint, with the arrows between the rooms
	$(GOLANGCI_LINT) run

# The flags of build, so that both share what is built of the standard library. Without
# cgo they do not meet the compiler for C that setup is installing meanwhile.
INSTALL_TOOL = env GOBIN=$(CURDIR)/.tools CGO_ENABLED=0 $(GO) install -trimpath -ldflags '-s -w'

$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION)"
	mkdir -p .tools
	$(INSTALL_TOOL) github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tools/golangci-lint $@

$(GOVULNCHECK):
	@echo "building govulncheck $(GOVULNCHECK_VERSION)"
	mkdir -p .tools
	timeout 5m $(INSTALL_TOOL) golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv .tools/govulncheck $@

.PHONY: tools
tools: $(GOLANGCI_LINT) # build what lint and vuln run; vuln says what it means if its tool cannot be built
	@$(MAKE) -s --no-print-directory $(GOVULNCHECK) || true

# A vulnerability in what is called fails (exit status 3 of govulncheck), and so does
# whatever else goes wrong, except that the tool or the database cannot be reached:
# that is a warning, for no change is to wait for somebody else's server.
.PHONY: vuln
vuln: ## known vulnerabilities in what is called (only a warning if the database cannot be reached)
	@if ! $(MAKE) -s --no-print-directory $(GOVULNCHECK); then
		echo "warning: govulncheck cannot be built, so vulnerabilities were not looked for" >&2
		exit 0
	fi
	report=$$(mktemp)
	trap 'rm -f "$$report"' EXIT
	status=0
	timeout 5m $(GOVULNCHECK) ./... >"$$report" 2>&1 || status=$$?
	cat "$$report"
	if [ "$$status" = 124 ] || { [ "$$status" = 1 ] && grep -q 'fetching vulnerabilities' "$$report"; }; then
		echo "warning: the vulnerability database cannot be reached, so vulnerabilities were not looked for" >&2
		exit 0
	fi
	exit "$$status"

.PHONY: docs
docs: ## write docs/policy.md anew, which is made of the code and lockmgr/policy/reference.md.tmpl
	$(GO) test -count=1 ./lockmgr/policy -run '^TestReference$$' -update

.PHONY: fmt
fmt: ## format the Go files
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: install
install: build ## install the binary, mount(8)'s helpers and the systemd unit (DESTDIR, PREFIX, SBINDIR, UNITDIR)
	install -D -m 0755 bin/latchfs '$(DESTDIR)$(PREFIX)/bin/latchfs'
	install -d '$(DESTDIR)$(SBINDIR)' '$(DESTDIR)$(UNITDIR)'
	ln -sf '$(PREFIX)/bin/latchfs' '$(DESTDIR)$(SBINDIR)/mount.latchfs'
	ln -sf '$(PREFIX)/bin/latchfs' '$(DESTDIR)$(SBINDIR)/mount.fuse.latchfs'
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' 'systemd/latchfs@.service' > '$(DESTDIR)$(UNITDIR)/latchfs@.service'
	if [ -z '$(DESTDIR)' ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

.PHONY: uninstall
uninstall: ## remove what install has put there (the same variables); what is mounted stays mounted
	rm -f '$(DESTDIR)$(PREFIX)/bin/latchfs' '$(DESTDIR)$(SBINDIR)/mount.latchfs' '$(DESTDIR)$(SBINDIR)/mount.fuse.latchfs'
	rm -f '$(DESTDIR)$(UNITDIR)/latchfs@.service'
	if [ -z '$(DESTDIR)' ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
