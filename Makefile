# Everything starts here. Needs git, make and a Python from 3.11 to 3.14 with venv; the rest is installed into .venv.
VENV   ?= .venv
LESSON ?= notebooks/00_start_here.ipynb
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.lock-installed

# The first Python that fits and can make an environment; `make lab PYTHON=/path/to/python3.12` chooses another.
FITS   := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
            "$$p" -c "$(FITS)" >/dev/null 2>&1 && echo "$$p" && break; done)

# Tests run side by side, a whole file or notebook in one worker; notebooks are the longest, so they begin first. Each
# worker may hold a live model, hence one thread for each. To look for a fault: make test WORKERS=0 TESTS=tests/loops ARGS="-x --pdb"
WORKERS ?= 2
TESTS   ?= $(wildcard notebooks) tests
PYTEST := $(PY) -m pytest -p tests.progress -p tests.notebooks.plugin -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
  --nbval --nbval-current-env --nbval-cell-timeout=120 --nbval-sanitize-with tests/notebooks/sanitize.cfg

# The words of Q reach the shell as they were typed, whatever they hold.
export ASK := $(value Q)

.DEFAULT_GOAL := help
.PHONY: help lab test lessons ask question bench env lock clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

lab: $(STAMP) ## Open the first lesson in JupyterLab on this machine (the address with its token is printed)
	@echo; echo "JupyterLab starts; open the address below in a browser. Ctrl-C stops it."
	@exec env -u JUPYTER_TOKEN JUPYTER_CONFIG_DIR="$(CURDIR)/.jupyter" \
	  $(PY) -m jupyterlab --LabApp.default_url=/lab/tree/$(LESSON)

test: $(STAMP) ## Run every test: unit tests, lessons (nbval) and lint; as root, installs what they need with apt
	@$(PY) -m agentkit.cli.main doctor --install || echo "tests that need what is missing will say so"
	@mkdir -p build && date +%s > build/test-began
	$(PY) -m ruff check
	OPENBLAS_NUM_THREADS=1 $(PYTEST) $(TESTS) $(ARGS)
	@echo $$(( $$(date +%s) - $$(cat build/test-began) )) > build/test-seconds

ask: question $(STAMP) ## Put one question to the agent: make ask Q="What is 23 times 19?"
	@$(PY) -m agentkit.cli.main ask "$$ASK" $(ARGS)

lessons: $(STAMP) ## Execute every lesson and solution anew, so that their stored outputs have one origin
	@$(PY) -m tests.notebooks.execute $(ARGS)

bench: $(STAMP) ## Measure speed on this machine
	@$(PY) -m agentkit.cli.main bench $(ARGS)

question:
	@test -n "$$ASK" || { echo 'usage: make ask Q="What is 23 times 19?"'; exit 2; }

env: $(STAMP) ## Only create or update the environment (.venv)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c "$(FITS)" 2>/dev/null || { \
	  echo "agentkit needs Python 3.11 to 3.14 with venv, and found: $$($(or $(PYTHON),python3) --version 2>&1)."; \
	  echo "Debian, Ubuntu: apt-get install python3 python3-venv    macOS: brew install python@3.12"; \
	  echo "Then run make again, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || { \
	  echo "Creating $(VENV) with $$($(PYTHON) --version)"; "$(PYTHON)" -m venv --clear $(VENV); }
	@echo "Installing the $$(grep -c == requirements.lock) packages of requirements.lock into $(VENV)" \
	  "(at first about 400 MB, 1 to 5 minutes)"
	@$(PY) -m pip install --disable-pip-version-check --no-deps -r requirements.lock || { \
	  echo "The packages could not be installed: see the error above. They need a network once, and Linux with glibc 2.35"; \
	  echo "or newer (Debian 12, Ubuntu 22.04) on x86_64 or aarch64, or macOS 14 or newer on Apple silicon."; exit 1; }
	@$(PY) -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

lock: ## Write requirements.lock anew from pyproject.toml (UPGRADE=1: newest versions)
	@test -x $(PY) || "$(PYTHON)" -m venv $(VENV)
	@UPGRADE=$(UPGRADE) .ci/lock.sh $(PY)

clean: ## Remove caches and build leftovers
	rm -rf build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find agentkit tests notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

distclean: clean ## The same, and the environment
	rm -rf $(VENV)
