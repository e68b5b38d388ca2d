# Everything a checkout can do. Each target makes what it needs: only python3, make and git have to be there.
#
#   make PYTHON=/path/to/python3.11 ...   choose the interpreter instead of letting it be found
#   make test ARGS="--only unit"          pass arguments on to the program behind a target

PYTHON ?= python3
# The Pythons that the two environments are tested on, and those that they also run on, for where the former cannot be had.
# A PYTHON that somebody names is the main environment's.
MAIN_PYTHON := $(if $(filter file,$(origin PYTHON)),3.11,$(PYTHON))
MAIN_OTHER := $(if $(filter file,$(origin PYTHON)),3.12,$(PYTHON))
NEXT_PYTHON := 3.13
NEXT_OTHER := 3.12
# What only runs playbooks takes any Python that ansible-core 2.19 runs on, for the machine to have one.
comma := ,
USER_PYTHON := $(if $(filter file,$(origin PYTHON)),>=3.11$(comma)<3.14,$(PYTHON))
# A whole run starts Python some thousand times: what it has compiled is kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE
TOOLS := .tools
VENV := .venv
VENV_NEXT := .venv-next
# The environment of a contributor holds what that of a user does, so there is one folder, and one of two stamps in it.
ENVIRONMENT := $(if $(wildcard $(VENV)/.made),$(VENV)/.made,$(VENV)/.user)
# Tools that start each other (molecule starts ansible-playbook and pytest) find themselves through PATH.
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
# Without a shell between, for a signal that ends make has to reach it.
CHECK := exec $(VENV)/bin/python -m tests.run
NOX := $(TOOLS)/bin/nox --session
# uv finds Pythons on PATH, or fetches them. Those of the system come first, as distributions build them optimised: one that pyenv has built as it
# does by itself is a quarter slower. Without ensurepip, which ansible-test needs, they stay where PATH has them. pyenv has on PATH only those that are
# switched on, so all of its are appended.
# Nor does uv read pip's settings, so the index that they name is handed on.
UV := PATH="$$(/usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null && echo /usr/bin:)$$PATH$$(printf ':%s' "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin)" \
	UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(TOOLS)/bin/pip config get global.index-url 2>/dev/null)}}" \
	$(TOOLS)/bin/uv --quiet

# An environment: folder, ansible-core, Python, another Python.
define environment
	@echo "making $(1) for ansible-core $(2) (about a minute the first time) ..."
	@$(UV) venv --clear --seed --python '$(3)' $(1) 2>/dev/null || $(UV) venv --clear --seed --python '$(4)' $(1)
	@$(UV) pip install --python $(1) --requirement requirements/core-$(2).txt --constraint requirements/core-$(2).lock
	@touch $@
endef
define lock
	@UV_CUSTOM_COMPILE_COMMAND="make lock" $(UV) pip compile --upgrade --python-version $(1) --no-annotate \
		--output-file requirements/$(2).lock requirements/$(2).txt
endef

.DEFAULT_GOAL := help
.PHONY: help env demo demo-down controller-kit test test-all lint format sanity unit unit-all unit-next molecule build bench-planner bench-verdicts bench-requests bench-diagnosis bench-inspect bench-gateway bench-scale bench-first-hour check-wheels changelog lock clean bench-status bench-hosts bench-fanout bench-house bench-day-two

help:
	@echo "baremetal.llm: from bare GPU hosts to a served language model"
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z%<>-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Start with: make demo (simulated hosts), or make env (hosts of your own)"

##@ To use it

env: $(ENVIRONMENT) ## the programs that run the playbooks, into .venv (about 100 MB of downloads)
	@echo "Put the programs on PATH:  source $(VENV)/bin/activate"
	@echo "Then:                      ansible-playbook playbooks/discover.yml"

demo: $(VENV)/.made ## three simulated hosts on this machine, from bare to a generated token
	@$(RUN) python -m lab demo $(ARGS)

demo-down: $(VENV)/.made ## remove everything that the demo made
	@$(RUN) python -m lab down $(ARGS)

build: $(ENVIRONMENT) ## the collection's tarball, into build/
	@$(NOX) build

controller-kit: $(ENVIRONMENT) ## one archive that brings the collection and Ansible to a controller without internet, into build/
	@$(NOX) controller-kit

##@ To change it

test: $(VENV)/.made $(VENV_NEXT)/.made ## the gate: what CI runs, half an hour (ARGS="--list" names it)
	@$(CHECK) $(ARGS)

test-all: $(VENV)/.made $(VENV_NEXT)/.made ## every check and test, hours (ARGS="--part 2/4", ARGS=--continue)
	@$(CHECK) --tier full $(ARGS)

lint: $(VENV)/.made ## ansible-lint, yamllint, ruff, mypy, docs and changelog
	@$(CHECK) --only lint $(ARGS)

format: $(VENV)/.made ## let ruff rewrite the Python files as lint wants them
	@$(NOX) format

sanity: $(VENV)/.made ## ansible-test sanity on what the tarball holds
	@$(CHECK) --only sanity $(ARGS)

unit: $(VENV)/.made ## the quick unit tests, a minute or two
	@$(CHECK) --only unit $(ARGS)

unit-all: $(VENV)/.made ## all unit tests
	@$(CHECK) --only unit-all $(ARGS)

unit-next: $(VENV_NEXT)/.made $(VENV)/.made ## all unit tests and the syntax of every playbook on ansible-core 2.21
	@$(CHECK) --only unit-next,syntax-next $(ARGS)

molecule: $(VENV)/.made ## every molecule scenario, on simulated hosts
	@$(CHECK) --only molecule $(ARGS)

molecule-%: $(VENV)/.made ## one of them: make molecule-ray
	@$(CHECK) --only molecule/$* $(ARGS)

bench-planner: $(VENV)/.made ## the planner's predictions against what real engines did
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/planner.py $(ARGS)

bench-verdicts: $(VENV)/.made ## the planner against what vLLM releases themselves say of options
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/verdicts.py $(ARGS)

bench-requests: $(VENV)/.made ## random starts and plans: whether remedies start, and whether contexts are the longest
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/requests.py $(ARGS)

bench-diagnosis: $(VENV)/.made ## which error texts of vLLM releases an entry of the diagnosis recognises (fetches 2.3 GB of wheels)
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/diagnosis.py $(ARGS)

bench-inspect: $(VENV)/.made ## how fast images are looked into, and in how much memory
	@$(RUN) python benchmarks/inspect_images.py $(ARGS)

bench-gateway: $(VENV)/.made ## what the gateway costs: first byte, drained replica, idle streams (fetches HAProxy where there is none)
	@$(RUN) python benchmarks/gateway.py $(ARGS)

bench-fanout: $(VENV)/.made ## how long N hosts take to have a file, passed on or copied, over links that are shaped (as root, half an hour)
	@$(RUN) python benchmarks/fanout.py $(ARGS)

bench-scale: $(VENV)/.made ## what site.yml costs the controller on 1, 4, 16 and 32 light hosts (as root, an hour or more)
	@$(RUN) PYTHONPATH=. python -m benchmarks.scale $(ARGS)

bench-day-two: $(VENV)/.made ## what operations on hosts that serve take, and whom they disturb (as root, half an hour)
	@$(RUN) PYTHONPATH=. python -m benchmarks.day_two $(ARGS)

bench-status: $(VENV)/.made ## what status.yml and doctor.yml take with 100 hosts that are stood in for
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/status.py $(ARGS)
bench-hosts: $(VENV)/.made ## 500 hosts that are not fresh x what is asked: nothing stopped, removed or left invalid
	@$(RUN) python benchmarks/hosts.py $(ARGS)

bench-house: $(VENV)/.made ## lines, untyped values, task names, engines outside of their rooms, and files that an example task touches
	@$(RUN) PYTHONPATH=.collections:. python benchmarks/house.py $(ARGS)

bench-first-hour: $(VENV)/.made ## the first screen of README.md in a clean clone: commands, files, seconds (on the demo's hosts)
	@$(RUN) python benchmarks/first_hour.py $(ARGS)

check-wheels: $(VENV)/.made ## what real wheels of vLLM and torch hold for which GPU (fetches 3 GB)
	@$(RUN) benchmarks/check_wheels.sh build/wheels

changelog: $(VENV)/.made ## write CHANGELOG.md for the version in galaxy.yml (only at a release)
	@$(RUN) antsibull-changelog release $(ARGS)

lock: $(TOOLS)/.made ## renew requirements/*.lock
	$(call lock,3.11,core-2.19)
	$(call lock,3.13,core-2.21)
	$(call lock,3.11,clients)
	$(call lock,3.11,importer)

clean: ## remove environments, caches and build results (the demo's hosts: make demo-down)
	rm -rf $(TOOLS) $(VENV) $(VENV_NEXT) build .nox .ansible .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(TOOLS)/.made: requirements/tools.txt
	@$(PYTHON) -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# The system's Python where it is new enough: nothing is compiled, and nothing but packages is fetched.
$(VENV)/.user: requirements/user.txt requirements/core-2.19.lock $(TOOLS)/.made
	@echo "making $(VENV) with ansible-core 2.19 (less than a minute where downloads are quick) ..."
	@$(UV) venv --clear --seed --python '$(USER_PYTHON)' $(VENV) || { \
		echo "No Python from 3.11 to 3.13 was found or could be fetched. Install one (Ubuntu 22.04: apt-get install python3.11) or name it:" >&2; \
		echo "  make env PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(UV) pip install --python $(VENV) --requirement requirements/user.txt --constraint requirements/core-2.19.lock
	@touch $@

$(VENV)/.made: requirements/core-2.19.txt requirements/user.txt requirements/core-2.19.lock $(TOOLS)/.made
	$(call environment,$(VENV),2.19,$(MAIN_PYTHON),$(MAIN_OTHER))

$(VENV_NEXT)/.made: requirements/core-2.21.txt requirements/core-2.21.lock $(TOOLS)/.made
	$(call environment,$(VENV_NEXT),2.21,$(NEXT_PYTHON),$(NEXT_OTHER))
