# `make demo` and `make test` need Python 3.10+ with venv, and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP_INSTALL := -m pip install --disable-pip-version-check --progress-bar on

# Versions of the rivals are pinned so that ratios stay comparable.
BENCH_VENV := .venv-bench
BENCH_PACKAGES := torch==2.13.0 onnxruntime onnx openvino
TVM_VENV := .venv-tvm
# Its tuner needs more than it says; the CPU's xgboost spares the packages of the GPU's.
TVM_PACKAGES := apache-tvm==0.25.0.post1 apache-tvm-ffi==0.1.12 \
	psutil cloudpickle scipy xgboost-cpu==3.2.0

# A stamp is newer than pyproject.toml once its installation went through.
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# Tests and tuning start many processes; bytecode spares each of them compiling the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tilewright needs Python 3.10 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 10) else 0)'
	@echo "Making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "Installing Tilewright and what it needs"
	@$(BIN)/python $(PIP_INSTALL) -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml | $(BIN)/python
	@echo "Installing Tilewright with its test and lint tools"
	@$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	@touch $(INSTALLED) $@

.PHONY: demo
demo: $(INSTALLED) ## set up if needed, then tune a matmul and a conv2d for half a minute, live
	@$(BIN)/python examples/demo.py $(ARGS)

.PHONY: test
test: $(INSTALLED_DEV) ## set up if needed, then run all tests
	@$(BIN)/python -m pytest -W error -q -n $(JOBS) --dist worksteal -m "not slow" $(ARGS)

.PHONY: lint
lint: $(INSTALLED_DEV) ## style, formatting, types, layers, sizes, dead code, names
	@$(MAKE) --no-print-directory -j $(JOBS) --output-sync $(LINTS)

# The longest first; they run beside each other.
LINTS := lint-types lint-dead-code lint-names lint-sizes lint-style lint-layers
.PHONY: $(LINTS)
lint-types:
	$(BIN)/mypy
lint-dead-code:
	$(BIN)/python tools/dead_code.py
lint-names:
	$(BIN)/python tools/names_lint.py
lint-sizes:
	$(BIN)/python tools/size_report.py
lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
lint-layers:
	$(BIN)/lint-imports

.PHONY: format
format: $(INSTALLED_DEV) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: doctor
doctor: $(INSTALLED) ## say what works on this machine, and what does not
	@$(BIN)/tilewright doctor

.PHONY: fuzz
fuzz: $(INSTALLED_DEV) ## all tests, the slow ones too, with many new random inputs
	@$(BIN)/python -m pytest -W error -q -n $(JOBS) --hypothesis-profile=fuzz $(ARGS)

.PHONY: attack
attack: $(INSTALLED_DEV) ## hostile input, with many new random attacks
	@$(BIN)/python -m pytest -W error -q -n $(JOBS) --hypothesis-profile=fuzz tests/attack $(ARGS)

.PHONY: bench
bench: $(BENCH_VENV)/.installed ## measure against the rivals that `make bench-env` installs
	@$(BENCH_VENV)/bin/python benchmarks/foundation.py $(ARGS)

.PHONY: bench-env
bench-env: $(BENCH_VENV)/.installed $(TVM_VENV)/.installed ## environments with the rivals (large downloads)

$(BENCH_VENV)/.installed: pyproject.toml
	@echo "Installing Tilewright and the rivals of the benchmarks into $(BENCH_VENV)"
	@$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) $(BENCH_PACKAGES) -e .
	@touch $@

$(TVM_VENV)/.installed: Makefile
	@echo "Installing TVM and what its tuner needs into $(TVM_VENV)"
	@$(PYTHON) -m venv $(TVM_VENV)
	@$(TVM_VENV)/bin/python $(PIP_INSTALL) $(TVM_PACKAGES)
	@touch $@

.PHONY: clean
clean: ## remove everything that make made
	rm -rf $(VENV) $(BENCH_VENV) $(TVM_VENV) build dist src/*.egg-info
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
