# Everything a fresh machine needs to build, try and test magicbyte. Given: Python 3.11+, Rust 1.95+, Java 17.
# `make` alone lists the targets. Nothing is installed outside .venv and target.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
CARGO   ?= cargo
# Spark's workers must run the interpreter that has the extension, and PyO3 must build for it.
export PYSPARK_PYTHON        := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export PYO3_PYTHON           := $(CURDIR)/$(BIN)/python
export VIRTUAL_ENV           := $(CURDIR)/$(VENV)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := Cargo.toml Cargo.lock rust/python/Cargo.toml $(shell find rust/core rust/python/src -name '*.rs' 2>/dev/null)
PYTEST := $(BIN)/python -m pytest
QUICK  := not spark and not broker and not slow and not long
SELECTED := not long

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types format bench bench-python bench-jobs fuzz miri asan coverage wheel clean bench-peers instructions build build-dev docs docs-serve package \
  try licences
.DELETE_ON_ERROR:

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  make %-11s %s\n' "$$name" "$$text"; done

demo: build ## build everything and read a real Kafka log directory on local Spark: rows, headers, a summary by topic
	$(BIN)/python examples/demo.py

test: build $(VENV)/.dev ## all tests: Rust, Python, real Spark, and a real Kafka broker where Maven is at hand
	$(CARGO) test -p magicbyte --all-features
	$(PYTEST) -m "$(SELECTED)"
	$(MAKE) instructions

check: build-dev $(VENV)/.dev ## the fast inner loop: clippy, Rust tests, quick Python tests (under 60 s when warm)
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) test -q -p magicbyte --all-features
	$(PYTEST) -q -m "$(QUICK)"

lint: $(VENV)/.dev types ## formatting and lints of both languages, and types
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## types: the package, the examples of tests/typing by mypy --strict and pyright, the stub by stubtest
	@test -f $(VENV)/.built-release || $(MAKE) build-dev
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	@if [ -x $(BIN)/pyright ]; then $(BIN)/pyright --pythonpath $(BIN)/python; \
	else echo "pyright: skipped, it brings its own Node.js: $(BIN)/pip install 'pyright[nodejs]' has it checked too"; fi
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist tests/typing/stubtest.allow magicbyte._core

format: $(VENV)/.dev ## put both languages into their standard format
	$(CARGO) fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Benches run on the last core, if the machine can pin, after a build on all of them.
PIN := $(shell command -v taskset >/dev/null && echo "taskset -c $$(($$(nproc) - 1))")
BENCH := $(CARGO) bench -p magicbyte --features arrow

bench: build $(VENV)/.dev ## MB/s of scan, columns, encoding on the files A-H, in Python and in Spark, beside the goals (some minutes)
	$(BENCH) --no-run
	$(PIN) $(BENCH) --bench table
	$(PIN) $(BENCH) --bench growth
	$(PIN) $(BENCH) --bench core
	$(MAKE) bench-python
	$(PIN) $(PYTEST) -q -o addopts= benches/python/test_benchmarks.py --benchmark-json=target/bench-pytest.json
	$(BIN)/python benches/python/arrow.py
	$(BIN)/python benches/python/spark.py
	$(BIN)/python benches/python/spark_growth.py
	$(BIN)/python benches/python/plot.py target/bench-growth.svg
	$(BIN)/python benches/peers/run.py ABCDEFGH goals
	$(BIN)/python benches/goals.py bench

bench-python: build $(VENV)/.dev ## records as Python objects beside aiokafka's Cython, each ratio with its goal (on the files of `make bench`)
	@ls target/bench-data/A-*.bin >/dev/null 2>&1 || $(BENCH) --bench table -- ABH scan
	$(PIN) $(BIN)/python benches/python/records.py target/bench-data

instructions: $(VENV)/.demo ## instructions a record of the decode loops, against the committed figures (needs valgrind)
	$(BIN)/python benches/python/instructions.py

bench-jobs: build $(VENV)/.dev ## 2 GB landed in Parquet beside Spark's Kafka source, 1 GB cleaned beside a broker's own cleaner (some minutes)
	@ls target/bench-data/A-*.bin >/dev/null 2>&1 || $(BENCH) --bench table -- A scan
	$(BIN)/python benches/python/jobs.py

bench-peers: build $(VENV)/.dev ## magicbyte and other readers of Kafka records side by side (builds the peers first: many minutes)
	$(BIN)/python -m pip install -q crc32c  # what kafka-python needs to be fair
	$(BIN)/python benches/peers/run.py

FUZZ_SECONDS ?= 60
fuzz: ## fuzz every target for FUZZ_SECONDS (needs cargo-fuzz; a nightly toolchain where there is one)
	cd rust/fuzz && $(PYTHON) run.py --seconds $(FUZZ_SECONDS)

coverage: ## line coverage of the core by its tests, a line a file (needs a nightly toolchain with the component llvm-tools)
	rust/fuzz/coverage.sh

# Codecs written in C cannot run under Miri, and nothing that compresses can.
MIRI ?= --skip codec::
miri: ## the core's unit tests under Miri (needs a nightly toolchain with the component miri; slow: MIRI=filter)
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 $(CARGO) +nightly miri test -p magicbyte --lib --features arrow -- $(MIRI)

asan: $(VENV)/.dev ## Python tests on an extension built with AddressSanitizer, C codecs included (needs a nightly toolchain and gcc)
	rust/fuzz/asan.sh $(BIN)/python

# The longer forms of some tests.
test-all: export MAGICBYTE_KILLS := 50
# What a cluster's workers get is the wheel that users get.
test-all: export MAGICBYTE_WHEEL := $(CURDIR)/dist
# Every test; the empty expression deselects none.
test-all: SELECTED :=
test-all: lint wheel test fuzz asan coverage ## lint, all tests, a round of fuzzing, the sanitizer, what is covered: what a release needs

# maturin builds the wheel of the unpacked sdist, which proves it; what both builds share is compiled once.
wheel: export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
wheel: $(VENV)/.dev ## a wheel and an sdist in dist/
	$(BIN)/maturin build --release --sdist --out dist

try: ## a wheel as a user has it: installed alone into an empty environment, then README's first commands (WHEEL=dist/x.whl)
	scripts/try-wheel.sh "$(WHEEL)"

package: ## what would be published of the core crate, built from its archive alone
	$(CARGO) package -p magicbyte --allow-dirty

licences: ## THIRD-PARTY.md anew: what is linked, and its licences
	$(BIN)/python scripts/licences.py

docs: $(VENV)/.docs ## the documentation as a site in site/, every warning an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.docs ## the same, on this machine's port 8000, built anew at each change
	$(BIN)/mkdocs serve

clean: ## remove all that was built, the environment too
	rm -rf $(VENV) target benches/target rust/fuzz/target dist site python/magicbyte/_core*.so
	find python tests examples -name __pycache__ -prune -exec rm -rf {} +

# The two ways to build the extension into the package; each undoes the other's stamp, so that nobody measures a debug build.
build: $(VENV)/.built-release
build-dev: $(VENV)/.built-dev

$(VENV)/.built-release: pyproject.toml $(RUST_SOURCES) $(VENV)/.demo
	$(BIN)/maturin develop -q --release
	@rm -f $(VENV)/.built-dev; touch $@

$(VENV)/.built-dev: pyproject.toml $(RUST_SOURCES) $(VENV)/.demo
	$(BIN)/maturin develop -q --profile quick
	@rm -f $(VENV)/.built-release; touch $@

# pip that knows dependency groups (PEP 735) comes first.
$(VENV)/.pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "magicbyte needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q "pip>=25.1"
	@touch $@

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	$(BIN)/python -m pip install -q --group demo
	@touch $@

$(VENV)/.docs: $(VENV)/.pip pyproject.toml
	$(BIN)/python -m pip install -q --group docs
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install -q --group all
	@touch $@
