# `make demo` and `make test` do everything a fresh machine needs: Python 3.11+, a C toolchain, make and the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# A real browser for the tests of report.html: installed where that needs no question, else said loudly.
CHROMIUM_MISSING := NO CHROMIUM here: the tests of report.html in a browser will be SKIPPED; install Debian's chromium to run them

# So are containerd and runc, for kubelets with real containers, where we are root (they need it anyway).
CONTAINERS_MISSING := NO CONTAINERD here: the tests of real containers will be SKIPPED; install Debian's containerd and runc, as root, to run them

# Every command of the tests is a process of its own: without kept bytecode each compiles 750 modules first, 1.6 of 4.4 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check hunt bench chromium containers pictures clean

demo: $(STAMP)
	$(BIN)/seatrial run many-small-jobs -o out/demo --force

test: $(STAMP) chromium containers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/seatrial cluster build --peers  # about twenty minutes the first time, nothing afterwards
	$(BIN)/pytest -rs -n auto --dist loadfile --durations=15 -m "not local"
	$(BIN)/pytest -n 2 --dist loadgroup --durations=25 -m local

chromium:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing chromium for the tests of report.html (a minute or two)"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    { timeout 150 apt-get install -qq -y --no-install-recommends chromium || { timeout 60 apt-get update -qq && timeout 150 apt-get install -qq -y --no-install-recommends chromium; }; } \
	      >/dev/null 2>&1 || echo "$(CHROMIUM_MISSING)"; \
	  else echo "$(CHROMIUM_MISSING)"; fi; }

containers:
	@PATH=$$PATH:/usr/sbin; { command -v containerd && command -v runc; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing containerd and runc for the tests of real containers"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    { timeout 150 apt-get install -qq -y --no-install-recommends containerd runc || { timeout 60 apt-get update -qq && timeout 150 apt-get install -qq -y --no-install-recommends containerd runc; }; } \
	      >/dev/null 2>&1 || echo "$(CONTAINERS_MISSING)"; \
	  else echo "$(CONTAINERS_MISSING)"; fi; }

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --dist loadfile -m "not slow and not local"

# Cases that nobody has seen yet: what it finds becomes an @example and is then part of `make test`.
hunt: $(STAMP)
	$(BIN)/pytest -m "hypothesis and not local" --hypothesis-profile hunt

# Those of hours, which go on where they were cut off, are run by themselves.
BY_THEMSELVES := $(addprefix benchmarks/,pictures.py fidelity.py crowded.py study_cells.py)
bench: $(STAMP)
	@for benchmark in $(filter-out $(BY_THEMSELVES),$(wildcard benchmarks/*.py)); do $(BIN)/python $$benchmark; done

# Every picture of README and docs again, each by the command that stands next to it there.
pictures: $(STAMP) chromium
	$(BIN)/python benchmarks/pictures.py

# uv when there is one, else venv and pip; both install exactly what requirements.lock says.
$(STAMP): requirements.lock pyproject.toml
	@echo "setting up $(VENV)"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python "$(PYTHON)" $(VENV) && \
	  uv pip install -q --python $(BIN)/python -r requirements.lock && \
	  uv pip install -q --python $(BIN)/python --no-deps -e . ; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/pip install -q --disable-pip-version-check -r requirements.lock && \
	  $(BIN)/pip install -q --disable-pip-version-check --no-deps -e . ; \
	fi
	@touch $(STAMP)

clean:
	rm -rf $(VENV) out
