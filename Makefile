# `make` alone lists what there is. Every target sets up what it needs in .venv, once.
PYTHON ?= python3
TORCH_INDEX ?=
EXPERIMENT ?=
PROFILE ?=
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
OVERRIDES = $(if $(EXPERIMENT),experiment=$(EXPERIMENT)) $(if $(PROFILE),profile=$(PROFILE)) $(ARGS)
TORCH := $(shell grep '^torch==' requirements/base.txt)

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev plan report mlflow-ui test test-slurm test-slow check bench clean

help: ## List the targets
	@echo "make sweep-<name>   run a sweep: $(notdir $(basename $(wildcard conf/sweep/*.yaml)))"
	@echo "                    with EXPERIMENT=<name> PROFILE=<name> ARGS='<overrides>'"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20 | sed 's/^/make /'

setup: $(VENV)/.base ## Install the pinned packages into .venv (TORCH_INDEX=<url> chooses a build of torch)

setup-dev: $(VENV)/.dev ## The same, with what tests and checks need

$(VENV)/.base: requirements/base.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 12); sys.exit(0 if ok else \
	  f"Python {sys.version.split()[0]}: 3.11 or 3.12 is needed; name one, e.g. make setup PYTHON=python3.12")'
	@echo "Installing into $(VENV), once (about 2 GB with torch) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(if $(TORCH_INDEX),$(PY) -m pip install -q --disable-pip-version-check $(TORCH) --index-url $(TORCH_INDEX))
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/base.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

sweep-%: setup
	@$(PY) -m sweeps run $* $(OVERRIDES)

plan-%: setup
	@$(PY) -m sweeps plan $* $(OVERRIDES)

report-%: setup
	@$(PY) -m fgrpo_bench.report $* $(ARGS)

mlflow-ui: setup ## Sync every sweep into MLflow and serve its UI on 127.0.0.1
	@$(PY) -m dashboards mlflow $(ARGS)

test: setup-dev ## Run the tests that need no SLURM
	@$(PY) -m pytest -m "not slurm" $(ARGS)

test-slurm: setup-dev ## Run the tests on a private SLURM cluster; as root on Debian, install SLURM first
	@$(PY) -m tests.slurm.install
	@$(PY) -m pytest tests/slurm -m "not slow" $(ARGS)

test-slow: setup-dev ## Run the slow tests, the SLURM fault matrix among them
	@$(PY) -m tests.slurm.install
	@$(PY) -m pytest -m slow $(ARGS)

check: setup-dev ## Format, lint, types and import contracts
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@PYTHONPATH=. $(VENV)/bin/lint-imports --no-logo

bench: setup-dev $(VENV)/.bench ## Measure speed and memory as ratios against named baselines
	@$(PY) -m tests.bench $(ARGS)

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/bench.txt
	@touch $@

clean: ## Remove .venv and caches; runs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
