# The commands a person needs; `cargo xtask help` has the rest.
export PATH := $(HOME)/.cargo/bin:$(PATH)

RUNS ?= 1000000
SEED ?= 0
TARGET ?= all
NAME ?=
ARGS ?=

# Where the library for C programs goes.
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help demo check test bench fuzz programs suites install-c setup setup-demo

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: setup-demo ## serve real clients from our stack and from the kernel, side by side
	@demo/run.sh

check: ## whether a change is sane, in 5 minutes and without root: make check ARGS="--minutes 10"
	@cargo xtask check $(ARGS)

test: setup ## everything that must hold before a change lands
	@cargo xtask ci

bench: setup ## a benchmark: make bench NAME=... ARGS=--json; without NAME, the list
	@cargo xtask bench $(NAME) $(ARGS)

fuzz: setup ## fuzz on stable: make fuzz TARGET=all RUNS=1000000 SEED=0
	@cargo xtask fuzz $(TARGET) --runs $(RUNS) --seed $(SEED) --release

programs: ## unmodified programs on our stack, each with bytes compared (docs/PROGRAMS.md)
	@.ci/setup programs
	@cargo test --locked --package millstream-preload --package millstream --test programs -- --nocapture

suites: ## suites of other projects on our stack and on the kernel, as root (docs/SUITES.md, docs/PROGRAMS.md)
	@.ci/setup suites
	@cargo xtask suites
	@cargo build --locked --package millstream-preload --package millstream
	@crates/apps/cli/tests/suites/redis.sh $${CARGO_TARGET_DIR:-target}/debug/millstream

install-c: setup ## the library for C programs: make install-c PREFIX=/usr/local DESTDIR=
	@cargo build --locked --profile dist --package millstream-capi
	@$(MAKE) -C crates/apps/capi install PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)

setup: ## install what the other commands need (as root, or with sudo)
	@.ci/setup

setup-demo:
	@.ci/setup demo
