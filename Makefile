# Each target sets up its environment by itself: with uv when it is on the PATH, else with venv and pip.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
CONSTRAINTS ?= constraints.txt
TESTS ?= tests
JOBS ?= 2

# The Kubeflow SDK wants an older `kubernetes` than the cncf provider, so it lives in an environment of its own.
KUBEFLOW_VENV ?= .venv-kubeflow

MAIN_JOB = tests/e2e/test_demo.py::test_the_demo_shows_a_training_run_and_ends_with_0

UV := $(shell command -v uv 2>/dev/null)
ifdef UV
make_venv = uv venv --quiet --seed --allow-existing --python $(PYTHON) $(1)
install = uv pip install --quiet --python $(1)/bin/python
else
make_venv = $(PYTHON) -m venv $(1) && $(1)/bin/pip install --quiet --upgrade 'pip>=25.1'
install = $(1)/bin/pip install --quiet
endif

.PHONY: demo test test-real check bench docs mutants

# KEEP=1 leaves everything up until Ctrl-C, DAG=name runs another example, REAL=1 takes the real control plane.
demo: $(VENV)/.ready
	$(if $(REAL),$(BIN)/python -m tests.realcluster.build)
	$(BIN)/python -m demo $(if $(KEEP),--keep) $(if $(DAG),--dag $(DAG)) $(if $(REAL),--real)

test: $(VENV)/.ready $(KUBEFLOW_VENV)/.ready
	KUBEFLOW_PYTHON=$(KUBEFLOW_VENV)/bin/python $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(TESTS)

# What can run on either cluster, on the real control plane, which is built from source the first time.
test-real: $(VENV)/.ready
	$(BIN)/python -m tests.realcluster.build
	$(BIN)/python -m pytest --real tests/suite
	$(BIN)/python -m pytest --real tests/realcluster tests/e2e/test_node_loss.py $(MAIN_JOB)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The reference pages that are made from the code and the recordings.
docs: $(VENV)/.ready
	$(BIN)/python -m tests.support.reference

# What of core/classify and core/cessation could change without a test that fails; takes long.
mutants: $(VENV)/.ready
	$(call install,$(VENV)) $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --group mutants
	$(BIN)/python -m tests.support.mutants $(MODULES)

bench: $(VENV)/.ready
	$(BIN)/python -m bench

$(VENV)/.ready: pyproject.toml constraints.txt
	$(call make_venv,$(VENV))
	$(call install,$(VENV)) $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[demo]' --group dev
	touch $@

$(KUBEFLOW_VENV)/.ready: Makefile
	$(call make_venv,$(KUBEFLOW_VENV))
	$(call install,$(KUBEFLOW_VENV)) 'kubeflow>=0.5,<0.6'
	touch $@
