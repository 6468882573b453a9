# make demo: set up and watch a model learn.  make test: set up and pass the tests.  make help: the rest.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types generated wheels bench clean

BIN := .venv/bin
SOURCES := core/src plugins/*/*/src
# Two workers with one torch thread each: more threads than cores make torch many times slower.
PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $${PYTEST_WORKERS:-2} --dist worksteal -q

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

setup: ## make .venv, or bring it up to date
	@python=$$(sh scripts/find_python.sh) && "$$python" scripts/setup_env.py

demo: setup ## train SmolLM2-135M on small sums, and show what changed
	@$(BIN)/python scripts/demo.py

test: setup lint types ## everything that CI checks
	@echo "pytest"
	@$(PYTEST)

test-all: setup lint types ## the same, with the slow tests, and vLLM and SGLang in environments of their own
	@$(BIN)/python scripts/setup_engine_env.py sglang
	@echo "pytest, the slow tests too"
	@$(PYTEST) -m "" --timeout 1200
	@$(BIN)/python scripts/setup_engine_env.py vllm
	@echo "pytest, vLLM itself"
	@HF_HUB_OFFLINE=1 .venv-vllm/bin/python -m pytest -q -m "" plugins/engines/vllm/tests

lint: setup ## ruff
	@echo "ruff"
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .

types: setup ## mypy --strict
	@echo "mypy"
	@$(BIN)/mypy $(SOURCES)

generated: setup ## write the files that are made from the code: option tables, pages of algorithms and plugins, known names
	@for name in known config_docs algorithm_docs plugin_docs; do $(BIN)/python scripts/make_$$name.py || exit 1; done

wheels: setup ## build every distribution into wheelhouse/
	@$(BIN)/python scripts/make_wheels.py

bench: setup ## measure against TRL and against the machine's limits (about 20 minutes)
	@$(BIN)/python benchmarks/limits.py
	@$(BIN)/python benchmarks/grpo_vs_trl.py

clean: ## remove .venv, caches and what was built; runs/ stays
	rm -rf .venv .venv-trl .venv-vllm .venv-sglang .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist wheelhouse
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
