# Everything is built inside .venv, by stamp files: a target does again only what changed. `make` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := benchmarks/.peers
RAY_OLDEST := .venv-ray-oldest
WHEELS := .venv-wheels
# pip learned to install dependency groups in 25.1; the one that comes with an old Python is older.
PIP := pip==26.3

RUST_SOURCES := Cargo.toml Cargo.lock rust-toolchain.toml pyproject.toml \
    $(shell find crates -name '*.rs' -o -name Cargo.toml)
# cargo and maturin must agree on the interpreter, or each builds the bindings again after the other.
export PYO3_PYTHON := $(abspath $(BIN)/python)
# An environment that happens to be active must not be the one that is built into.
export VIRTUAL_ENV := $(abspath $(VENV))

# A machine without Rust gets one in .rust by rustup, which touches nothing of the user's home.
ifeq (,$(shell command -v cargo 2>/dev/null))
TOOLCHAIN := .rust/.installed
export RUSTUP_HOME := $(abspath .rust/rustup)
export CARGO_HOME := $(abspath .rust/cargo)
export PATH := $(CARGO_HOME)/bin:$(PATH)
endif
# Who this system trusts, where it tells: the client that fetches rustup has a list of its own, without a company's proxy.
TRUSTED := $(wildcard /etc/ssl/certs/ca-certificates.crt)

.DEFAULT_GOAL := help
.PHONY: help build test test-rust test-python test-rows test-engine test-ray test-ray-oldest fuzz cargo-fuzz sim-faults chaos \
    lint demo bench bench-shapes wheels release-check clean compiler

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 18

# cargo would stop in the middle, at the first crate that it links.
compiler:
	@command -v cc >/dev/null || { \
	    echo 'no C compiler (cc): install one, on Debian by apt-get install build-essential'; exit 1; }

.rust/.installed: rust-toolchain.toml | compiler
	$(PYTHON) -m venv .rust/venv
	.rust/venv/bin/python -m pip install --quiet --disable-pip-version-check puccinialin==0.1.14
	@{ $(if $(TRUSTED),SSL_CERT_FILE="$${SSL_CERT_FILE:-$(TRUSTED)}") .rust/venv/bin/python -m puccinialin \
	    --location .rust && rustup toolchain uninstall stable && cargo --version; } >.rust/log 2>&1 || { tail -n 1 .rust/log; \
	    echo 'Rust is not installed and could not be fetched (.rust/log): install it by https://rustup.rs'; exit 1; }
	touch $@

$(VENV)/.tools: pyproject.toml | compiler $(TOOLCHAIN)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	touch $@

# The environment holds one build of the native module at a time: the release build, or that of the tests, which has
# debug and overflow assertions on. Python prefers a module of its own version to one for all, so that an old one has to go.
MODULES := python/exoshuffle/_native*.so
$(VENV)/.release: $(VENV)/.tools $(RUST_SOURCES)
	rm -f $(VENV)/.checked $(MODULES)
	PIP_QUIET=1 $(BIN)/maturin develop --release --quiet
	touch $@

$(VENV)/.checked: $(VENV)/.tools $(RUST_SOURCES)
	rm -f $(VENV)/.release $(MODULES)
	PIP_QUIET=1 $(BIN)/maturin develop --quiet
	touch $@

build: $(VENV)/.release ## build and install into .venv (release)

demo: build ## sort 2 GB of records within 512 MB, and show what it took
	$(BIN)/python -m benchmarks.demo

test: test-rust test-python test-ray ## run all tests

test-rust: $(VENV)/.tools
	cargo test --workspace --quiet

# Two processes that take about the same time, for who has two cores: `make -j2 test-python`. A process of all tests grows
# to gigabytes.
ROW_TESTS := tests/unit tests/refusals tests/end_to_end

test-python: test-rows test-engine

test-rows: $(VENV)/.checked
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) $(ROW_TESTS)

test-engine: $(VENV)/.checked
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) --ignore tests/ray $(ROW_TESTS:%=--ignore %)

# In a process of their own: Ray's core ends the program where one of its checks fails, and so does a test that takes too long.
test-ray: $(VENV)/.checked
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) tests/ray

$(RAY_OLDEST)/.installed: $(VENV)/.tools pyproject.toml
	$(BIN)/python -m venv $(RAY_OLDEST)
	$(RAY_OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	$(RAY_OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --group ray-oldest
	touch $@

# With the native module that `make test` has built. Old Rays leave files open, and processes that nobody waits for.
test-ray-oldest: $(VENV)/.checked $(RAY_OLDEST)/.installed ## test the oldest supported Ray: conformance, sorts, joining a cluster
	PYTHONPATH=$(abspath python) $(RAY_OLDEST)/bin/python -m pytest $(PYTEST_OPTIONS) -W ignore::ResourceWarning -k 'not TestThreeNodes' \
	    tests/ray/test_conformance.py tests/ray/test_sort.py tests/ray/test_delivery.py tests/ray/test_spilled_bytes.py

# What is worth a look is printed with its seed, which `python -m tests.fuzz --seed N` runs alone; counts are at the end.
FUZZ_CASES ?= 10000
fuzz: $(VENV)/.checked ## random files and operations against DuckDB and Polars (10,000 cases: an hour or two; FUZZ_CASES=)
	$(BIN)/python -m tests.fuzz --cases $(FUZZ_CASES)

# What readers make of any bytes; a finding ends the target, and its bytes stay in fuzz/artifacts. The compiler needs no flag
# of its nightly builds without a sanitizer: memory is counted by the targets themselves.
FUZZ_SECONDS ?= 300
cargo-fuzz: $(VENV)/.tools ## any bytes as CSV, JSON lines, Parquet, IPC, spill indexes (five times FUZZ_SECONDS=300)
	cargo install --quiet --locked --root $(VENV) --version 0.13.2 cargo-fuzz
	$(BIN)/python -m tests.fuzz.seeds
	for target in csv json_lines parquet ipc spill_index; do \
	    $(BIN)/cargo-fuzz run -s none $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=1024 \
	        -max_len=20000 -print_final_stats=1 || exit 1; \
	done

# A finding is printed with its seed, which `python -m tests.sim --seed N` replays: event by event, with the same trace.
SIM_CASES ?= 1000
sim-faults: $(VENV)/.checked ## shuffles in virtual time whose workers, nodes and objects fail by seed (a minute; SIM_CASES=)
	$(BIN)/python -m tests.sim --cases $(SIM_CASES)

CHAOS_SECONDS ?= 3600
chaos: $(VENV)/.checked ## jobs whose workers, disks, spill files and inputs fail (an hour; CHAOS_SECONDS=)
	$(BIN)/python -m tests.chaos --seconds $(CHAOS_SECONDS)

# Without optimisation cargo-deny builds in two minutes of two cores instead of ten, and is fast enough. Who works without a
# network can do all else.
DENY := $(BIN)/cargo-deny
$(DENY): $(VENV)/.tools
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
	    cargo install --quiet --locked --root $(VENV) --version 0.20.2 cargo-deny && touch $@ || \
	    echo 'cargo-deny could not be installed'

lint: $(VENV)/.checked $(DENY) ## check formatting, lints, types, layers, circles and the licences of crates
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/python .ci/rust_circles.py crates/*
	if [ -x $(DENY) ]; then $(DENY) check --hide-inclusion-graph licenses bans sources; \
	    else echo 'licences of crates were not looked at'; fi
	if $(DENY) fetch db 2>/dev/null; then $(DENY) check advisories; \
	    else echo 'advisories of crates were not looked at: their database cannot be reached'; fi
	$(BIN)/ruff check python benchmarks tests examples
	$(BIN)/ruff format --check python benchmarks tests examples
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports --no-cache
	$(BIN)/python -m mypy.stubtest exoshuffle._native --allowlist python/stubtest_allowlist.txt --ignore-unused-allowlist

$(PEERS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --group peers
	touch $@

bench: build $(PEERS)/.installed ## compare with the peers (hours, 60 GB of disk; see benchmarks/README.md)
	$(BIN)/python -m benchmarks.sort_parquet --with exoshuffle_on_ray --with ray
	$(BIN)/python -m benchmarks.shuffles --scale 10 --with exoshuffle_on_ray --with ray
	$(BIN)/python -m benchmarks.sort_records
	$(BIN)/python -m benchmarks.record_kernel
	$(BIN)/python -m benchmarks.scaling --rounds 1
	$(BIN)/python -m benchmarks.driver_memory
	$(BIN)/python -m benchmarks.driver_memory --maps 2000 --reduces 2000 --engine ray --strategy push
	$(BIN)/python -m benchmarks.experiments
	$(BIN)/python -m benchmarks.strategies
	$(BIN)/python -m benchmarks.checks
	$(BIN)/python -m benchmarks.skew
	$(BIN)/python -m benchmarks.db_benchmark

# What has been played is kept in benchmarks/results/shapes-SIZE.jsonl: delete the file to begin anew. Two minutes:
# `make bench-shapes SIZE=small ROUNDS=1 WARM_UP=0`. The page of a run: `benchmarks.shapes.report` on that file.
SIZE ?= medium
ROUNDS ?= 3
WARM_UP ?= 1
bench-shapes: build $(PEERS)/.installed ## compare 71 shapes with DuckDB, Polars and Daft (hours; SIZE=small ROUNDS=1 WARM_UP=0: minutes)
	$(BIN)/python -m benchmarks.shapes --size $(SIZE) --rounds $(ROUNDS) --warm-up $(WARM_UP)

$(WHEELS)/.installed: pyproject.toml | compiler $(TOOLCHAIN)
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip install --quiet --disable-pip-version-check '$(PIP)'
	$(WHEELS)/bin/python -m pip install --quiet --disable-pip-version-check --group wheels
	touch $@

# `memfd_create` came with glibc 2.27, so that 2.28 is the oldest of the agreed platforms (Debian 10, RHEL 8). Maturin refuses
# a module that needs more than its platform has. The module of this machine's processor is then installed and tried.
PLATFORM := manylinux_2_28
PROCESSORS ?= x86_64 aarch64
WHEEL = dist/exoshuffle-*-cp311-abi3-$(PLATFORM)_$(1).whl

wheels release-check: export PYO3_PYTHON := $(abspath $(WHEELS)/bin/python)
wheels release-check: export VIRTUAL_ENV := $(abspath $(WHEELS))
# Kernels of aarch64 have pages of 4 to 64 KiB, and jemalloc has to know the largest: 2 to the 16th.
wheels release-check: export AARCH64_UNKNOWN_LINUX_GNU_JEMALLOC_SYS_WITH_LG_PAGE := 16
wheels: $(WHEELS)/.installed ## wheels of Linux for x86-64 and aarch64, in dist; this machine's is tried without a compiler
	for processor in $(PROCESSORS); do \
	    rm -f $(call WHEEL,$$processor) && \
	    { ! command -v rustup >/dev/null || rustup --quiet target add $$processor-unknown-linux-gnu; } && \
	    PATH="$(abspath $(WHEELS))/bin:$$PATH" maturin build --release --strip --quiet --zig \
	        --target $$processor-unknown-linux-gnu --compatibility $(PLATFORM) --interpreter python3.11 --out dist \
	        || exit 1; \
	done
	$(WHEELS)/bin/python .ci/clean_install.py $(call WHEEL,$$(uname -m))

release-check: wheels ## what a release must pass: sdist and wheel, each installed alone, run the README's examples
	rm -f dist/exoshuffle-*.tar.gz
	$(WHEELS)/bin/maturin sdist --out dist
	$(WHEELS)/bin/python .ci/clean_install.py dist/exoshuffle-*.tar.gz

clean: ## remove what was built and generated
	rm -rf target
	rm -rf fuzz/target fuzz/corpus fuzz/artifacts
	rm -rf $(VENV) $(PEERS) $(RAY_OLDEST) $(WHEELS) .rust dist bench-data demo-data benchmarks/results
	rm -f $(MODULES)
