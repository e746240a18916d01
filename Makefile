# make demo   explain three sentences, audit the embedded model, and say which explanations to heed (sets up all it needs)
# make test   lint, types, tests, docs, and the wheel in an environment of its own (sets up all it needs);
#             FAMILIES=all tests every model family and a Ray cluster, as CI does; without it, the five families that
#             differ in mechanism, and the cluster where Ray is installed
# make bench  heedful against its peers, in seconds and passes: JOBS="lime shapley" runs some, QUICK=1 takes two minutes
# make reproduce  every paper by `heedful reproduce`, published numbers beside ours (hours): DATA=folder of data sets,
#             PROFILE=smoke, quick or full, ENCODER=folder of a pretrained encoder

PYTHON ?= python3
VENV := .venv
FAMILIES ?= some
PROFILE ?= quick
DATA ?= $(wildcard ../shared/data)
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test lint types tests wheel bench reproduce clean

demo: $(VENV)/.ready
	$(BIN)/python scripts/demo.py

test: lint types tests wheel

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-dev
	$(BIN)/mypy

tests: $(VENV)/.ready-dev $(if $(filter all,$(FAMILIES)),$(VENV)/.ready-ray)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --families $(FAMILIES)

# one thread, so that CPU seconds can be compared
bench: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m benchmarks $(JOBS) $(if $(QUICK),--quick)

reproduce: $(VENV)/.ready-dev
	$(BIN)/heedful reproduce all --profile $(PROFILE) --out reproduced/$(PROFILE) --jobs 2 \
	  $(if $(DATA),--data $(DATA)) $(if $(ENCODER),--set hao2021.encoder=$(ENCODER))
	$(BIN)/python scripts/reproduce.py $(if $(DATA),--data $(DATA)) $(if $(ENCODER),--encoder $(ENCODER)) \
	  $(if $(filter full,$(PROFILE)),,studies)

# what a user gets: the wheel, without a single development package
wheel: $(VENV)-wheel/.ready
	$(VENV)-wheel/bin/heedful --help > /dev/null
	cd / && $(CURDIR)/$(VENV)-wheel/bin/heedful explain "A warm, funny film that I did not want to end." --method attention-mean --method ig
	cd / && $(CURDIR)/$(VENV)-wheel/bin/heedful train average corpus --out $(CURDIR)/$(VENV)-wheel/trained --restart --set epochs=1

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'heedful needs Python 3.11 or newer; try: make PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: $(VENV)/bin/python constraints.txt
	$(PIP) install -c constraints.txt torch
	@touch $@

$(VENV)/.ready: $(VENV)/.torch pyproject.toml
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.torch pyproject.toml
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-ray: $(VENV)/.ready-dev
	$(PIP) install -c constraints.txt -e '.[ray]'
	@touch $@

$(VENV)-wheel/.ready: $(VENV)/.ready-dev constraints.txt pyproject.toml $(shell find src -type f -not -name '*.pyc')
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --wheel --outdir dist . > /dev/null
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip --quiet --disable-pip-version-check install -c constraints.txt torch
	$(VENV)-wheel/bin/python -m pip --quiet --disable-pip-version-check install -c constraints.txt dist/*.whl
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-wheel dist demo reproduced .mypy_cache .ruff_cache .pytest_cache .hypothesis
