# The commands a person needs; `cargo xtask help` has the rest.
export PATH := $(HOME)/.cargo/bin:$(PATH)

RUNS ?= 1000000
SEED ?= 0
TARGET ?= all
NAME ?=
ARGS ?=

.PHONY: help demo test bench fuzz setup setup-demo

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: setup-demo ## serve real clients from our stack and from the kernel, side by side
	@demo/run.sh

test: setup ## everything that must hold before a change lands
	@cargo xtask ci

bench: setup ## a benchmark: make bench NAME=... ARGS=--json; without NAME, the list
	@cargo xtask bench $(NAME) $(ARGS)

fuzz: setup ## fuzz on stable: make fuzz TARGET=all RUNS=1000000 SEED=0
	@cargo xtask fuzz $(TARGET) --runs $(RUNS) --seed $(SEED) --release

setup: ## install what the other commands need (as root, or with sudo)
	@.ci/setup

setup-demo:
	@.ci/setup demo
