# Everything a checkout can do. Each target makes what it needs: only python3, make and git have to be there.
#
#   make PYTHON=/path/to/python3.11 ...   choose the interpreter instead of letting it be found
#   make test ARGS="--only unit"          pass arguments on to the program behind a target

PYTHON ?= python3
VENV := .venv
VENV_NEXT := .venv-next
# Tools that start each other (molecule starts ansible-playbook and pytest) find themselves through PATH.
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
CHECK := $(RUN) python tests/run.py

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-fast lint format sanity unit unit-next molecule build bench-planner bench-inspect check-wheels changelog lock clean

help: ## this list
	@echo "baremetal.llm: from bare GPU hosts to a served language model"
	@echo
	@awk -F ':.*## ' '/^[a-z%<>-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Start with: make demo"

demo: $(VENV)/.made ## three simulated hosts on this machine, from bare to a generated token
	@$(RUN) python -m lab demo $(ARGS)

demo-down: $(VENV)/.made ## remove everything that the demo made
	@$(RUN) python -m lab down $(ARGS)

test: $(VENV)/.made $(VENV_NEXT)/.made ## every check and test (ARGS="--list" names them)
	@$(CHECK) $(ARGS)

test-fast: $(VENV)/.made $(VENV_NEXT)/.made ## all but the molecule scenarios
	@$(CHECK) --fast $(ARGS)

lint: $(VENV)/.made ## ansible-lint, yamllint, ruff, mypy, docs and changelog
	@$(CHECK) --only lint $(ARGS)

format: $(VENV)/.made ## let ruff rewrite the Python files as lint wants them
	@$(CHECK) --format

sanity: $(VENV)/.made ## ansible-test sanity on what the tarball holds
	@$(CHECK) --only sanity $(ARGS)

unit: $(VENV)/.made ## unit tests on ansible-core 2.19
	@$(CHECK) --only unit $(ARGS)

unit-next: $(VENV_NEXT)/.made $(VENV)/.made ## unit tests, lint and syntax checks on ansible-core 2.21
	@$(CHECK) --only next $(ARGS)

molecule: $(VENV)/.made ## every molecule scenario, on hosts that they share
	@$(CHECK) --only molecule $(ARGS)

molecule-%: $(VENV)/.made ## one of them: make molecule-ray
	@$(CHECK) --only molecule/$* $(ARGS)

build: $(VENV)/.made ## the collection's tarball, into build/
	@$(RUN) tests/build.sh build

bench-planner: $(VENV)/.made ## the planner's predictions against what real engines did
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/planner.py $(ARGS)

bench-inspect: $(VENV)/.made ## how fast images are looked into, and in how much memory
	@$(RUN) python benchmarks/inspect_images.py $(ARGS)

check-wheels: $(VENV)/.made ## what real wheels of vLLM and torch hold for which GPU (fetches 3 GB)
	@$(RUN) benchmarks/check_wheels.sh build/wheels

changelog: $(VENV)/.made ## write CHANGELOG.md for the version in galaxy.yml (only at a release)
	@$(RUN) antsibull-changelog release $(ARGS)

lock: ## renew requirements/*.lock
	@$(PYTHON) requirements/venv.py --lock 2.19
	@$(PYTHON) requirements/venv.py --lock 2.21

clean: ## remove environments, caches and build results (the demo's hosts: make demo-down)
	rm -rf $(VENV) $(VENV_NEXT) .python build .ansible .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.made: requirements/core-2.19.txt requirements/core-2.19.lock requirements/venv.py
	@$(PYTHON) requirements/venv.py $(VENV) 2.19

$(VENV_NEXT)/.made: requirements/core-2.21.txt requirements/core-2.21.lock requirements/venv.py
	@$(PYTHON) requirements/venv.py $(VENV_NEXT) 2.21
