# Everything runs from .venv; dependencies are locked with hashes.
# PYTHON=/path/to/python chooses the interpreter; else it is the newest suitable one on the path.
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo setup setup-dev test test-served test-served-long soak year series test-cluster test-reliability \
  reliability reproduction evidence lint types contracts docs check bench lock clean test-install

demo: setup  ## release real microdata, from plan to published file
	$(BIN)/anonflow demo

setup: $(VENV)/.runtime  ## what a custodian needs

setup-dev: $(VENV)/.dev  ## and what a maintainer needs

$(VENV)/.runtime: requirements.lock pyproject.toml
	@test -x $(BIN)/python || { python="$$(PYTHON='$(PYTHON)' .ci/find-python)" && \
	  { "$$python" -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "$$python has no module venv: install it (on Debian: python3-venv)" >&2; false; } } && \
	  echo "$$python -m venv $(VENV)" && "$$python" -m venv $(VENV); }
	$(PIP) install --quiet --no-deps --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@# Tools that are half installed, or of an earlier lock, are brought into line by the next rule.
	test -x $(BIN)/pytest || $(PIP) check
	@# Empty, migrated databases, from which every new home is copied: saves seconds at the first run.
	$(BIN)/python -c "import anonflow; anonflow.prepare()"
	touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(PIP) install --quiet --no-deps --require-hashes -r requirements-dev.lock
	$(PIP) check
	touch $@

# Two processes of one thread each: with more they take the processors from each other. In the order of the files, the
# last of which are short, so that neither process waits long for the other. Compiled sources are kept, also where the
# environment forbids it: hundreds of processes import them.
export PYTHONDONTWRITEBYTECODE :=
TEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: setup-dev  ## every test
	$(TEST)

test-install: setup-dev  ## a short selection, for an interpreter beside the one that runs every test
	$(TEST) tests/anoncore/microdata tests/anoncore/utility tests/anoncore/test_method_contract.py \
	  tests/tasks/common tests/tasks/record tests/deploy/test_wheel.py

SERVED := $(BIN)/python -m pytest -o addopts="" -q --strict-markers --import-mode=importlib -p no:cacheprovider

test-served: setup-dev  ## the whole stack: pages, schedule, approval, alarms, publication, a death in between
	$(SERVED) tests/served --ignore=tests/served/long --ignore=tests/served/series

test-served-long: setup-dev  ## every part dies, while people are awaited and while a release is published
	$(SERVED) tests/served/long

soak: setup-dev  ## hundreds of runs of twelve plans while everything fails: hours; docs/explanation/reliability.md
	$(BIN)/python -m tests.served.soak.run --runs 1000 --minutes 600 --write

year: setup-dev  ## 365 nightly releases in one home, the disk they need, the audit; docs/explanation/reliability.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.reliability.year --nights 365 --write

series: setup-dev  ## 24 monthly releases of a register by its schedule, and the areas of those who stay, join and leave
	$(SERVED) -s tests/served/series

test-cluster: setup-dev  ## workers of a cluster and of a pool killed at twenty moments each, the scheduler lost
	$(SERVED) tests/cluster

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/mypy

contracts: setup-dev
	$(BIN)/lint-imports

docs: setup-dev  ## the documentation site, in site/; a dead link or a missing reference fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint types contracts docs

bench: setup-dev  ## speed beside named alternatives, growth over three sizes
	$(BIN)/python -m pytest tests/benchmarks -o addopts="" -q --benchmark-sort=name

# DATA is a folder with the tables that docs/reference/evidence.md lists; hours, unless SEEDS are few.
evidence: setup-dev  ## independent samples and planted leaks, judged by the default gates
	for what in nulls leaks; do ANONFLOW_EVIDENCE_DATA="$(DATA)" $(BIN)/python -m tests.evidence.verdicts $$what \
	  --seeds $(or $(SEEDS),0:20) || exit 1; done

reproduction: setup-dev  ## the papers' tables and figures on open data, written to docs/explanation/reproduction*.md
	$(BIN)/python -m tests.papers $(PARTS)

test-reliability: setup-dev  ## short forms: kills, canaries, connections, rights
	$(SERVED) -n 2 --dist loadfile tests/reliability

reliability: setup-dev  ## kills, canaries, mishaps, connections, tampering, bad input: docs/explanation/reliability.md
	$(BIN)/python -m tests.hostile.fuzzed --total 10000 --write
	$(BIN)/python -m tests.reliability.report

UV_COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate \
  --no-header --no-emit-index-url --group build --extra platform pyproject.toml

lock:  ## resolve again; needs uv
	$(UV_COMPILE) -o requirements.lock
	$(UV_COMPILE) --extra cluster -c requirements.lock -o requirements-cluster.lock
	$(UV_COMPILE) --extra cluster --extra dev -c requirements-cluster.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) site
