# Everything a person or a machine runs. What a step does never belongs here, only which steps and in which order.

SHELL := /bin/bash
PYTHON ?= python3
DURATION ?= 90
export DURATION ENGINE MODE VLLM_ENV CLIENTS TOKEN_FILE

DAEMON_PYTHON := .venv/bin/python
VLLM_PYTHON := $(or $(VLLM_ENV),.venv-vllm)/bin/python
NO_PYTHON := cannot set up: there is no $(PYTHON) on PATH; install Python 3.11 or newer or name one with PYTHON=
SET_UP := command -v $(PYTHON) > /dev/null || { echo "$(NO_PYTHON)" >&2; exit 1; }; $(PYTHON) bench/environments.py
# A vLLM that already runs needs none of ours.
RUN_SET_UP := daemon $(if $(ENGINE),,vllm)

.DEFAULT_GOAL := help
.PHONY: help run test test-long test-engines check bench clean set-up

help: ## Show this
	@echo "usage: make TARGET [NAME=value]"
	@echo
	@sed -n 's/^\([a-z%-]*\):.*## /  \1@/p' Makefile | while IFS=@ read -r name said; do printf '  %-12s %s\n' $$name "$$said"; done
	@echo
	@echo "  DURATION=90               seconds that run takes, 0 = until Ctrl-C"
	@echo "  ENGINE=http://host:port   steer a vLLM that already runs"
	@echo "  TOKEN_FILE=path           its admin token: what VLLM_GOVERNOR_TOKEN_FILE named when it was started"
	@echo "  CLIENTS=64                clients of the load, 0 = none"
	@echo "  MODE=observe              decide and record, change nothing"
	@echo "  VLLM_ENV=path             use your own environment with vLLM; nothing in it is changed"
	@echo "  ONLY=0.29.0               the one version that test-engines tests"
	@echo "  PYTHON=python3.12         the Python that makes the environments"

run: ## Start a real vLLM on this machine and watch the governor steer it
	@$(SET_UP) $(RUN_SET_UP)
	@$(DAEMON_PYTHON) -m bench demo

test: ## Run every test but the long ones, on a real vLLM too
	@$(SET_UP) daemon vllm --tests
	@$(call both,-m "not long",0)

test-long: ## Run the long tests alone
	@$(SET_UP) daemon vllm --tests
	@$(call both,-m long,5)

test-engines: ## Test the plugin on several versions of vLLM; writes docs/compatibility.md
	@$(SET_UP) daemon engines
	@$(DAEMON_PYTHON) -m bench engines $(if $(ONLY),--only $(ONLY))

check: ## Lint, format, types, import rules
	@$(SET_UP) daemon
	@failed=0; \
	for command in "ruff check ." "ruff format --check ." "mypy" "lint-imports"; do \
	  echo "== $$command"; PYTHONPATH=engine:. .venv/bin/$$command || failed=1; \
	done; exit $$failed

bench: ## Run every comparison again, smaller (15 minutes); writes the tables of docs/compare.md and docs/benchmarks.md
	@$(SET_UP) daemon vllm
	@$(DAEMON_PYTHON) -m bench proof

bench-%: ## Run one bench with --json (python -m bench --help names them)
	@$(SET_UP) daemon vllm
	@$(DAEMON_PYTHON) -m bench $* --json

set-up: ## Only make the environments
	@$(SET_UP) daemon vllm

clean: ## Remove what builds and tests left; the environments and the history stay
	@rm -rf build engine/build engine/*.egg-info engine/.ruff_cache *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache var/logs var/tiny-model
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# The daemon's tests and the plugin's run in different environments, side by side; one failing does not hide the other.
# Arguments: what to select, and one more status that is no failure (5: pytest found nothing selected).
define both
failed=0; plugin=$$(mktemp); trap 'rm -f $$plugin' EXIT; \
echo "tests/engine runs beside the others; what it says comes at the end"; \
PYTHONPATH=engine:. $(VLLM_PYTHON) -m pytest $(1) tests/engine > $$plugin 2>&1 & running=$$!; \
$(DAEMON_PYTHON) -m pytest $(1) $(wildcard tests/unit tests/contract tests/field tests/e2e) || { [ $$? = $(2) ] || failed=1; }; \
wait $$running || { [ $$? = $(2) ] || failed=1; }; cat $$plugin; \
exit $$failed
endef
