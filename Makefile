# Thin on purpose: each target is one obvious command. `make check` and `make test` work alone on a
# fresh machine with Python 3.11 or newer, make and a C compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: check test lint types proofs symbolic bench gpu docs clean

# The environment is rebuilt only when the dependency lists change. A strict editable install links
# the files one by one, so it is renewed (in seconds) when a folder has gained or lost a file.
FOLDERS := $(shell find reference fast conformance -type d -not -name __pycache__)
INSTALL := $(BIN)/pip install -q --constraint constraints.txt

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) "setuptools>=77" wheel
	$(INSTALL) --editable ".[test]" --config-settings editable_mode=strict
	touch $@ .venv/.linked

.venv/.linked: .venv/.ready $(FOLDERS)
	$(BIN)/pip install -q --no-build-isolation --no-deps --editable . --config-settings editable_mode=strict
	touch $@

check: .venv/.linked
	$(BIN)/draftproof check fast transformers

test: .venv/.linked
	$(BIN)/python -m pytest -q -n 2

lint: .venv/.linked
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.linked
	$(BIN)/mypy -p draftproof.reference -p draftproof.fast -p draftproof.conformance

symbolic: .venv/.linked
	$(BIN)/python proofs/symbolic/prove.py

proofs: .venv/.linked symbolic
	PYTHON=$(abspath $(BIN)/python) $(MAKE) -C proofs

bench: .venv/.linked
	$(BIN)/python -m draftproof.conformance.bench_enumeration
	$(BIN)/python -m draftproof.fast.bench --full

# On a machine with a GPU: the tests that need one, then docs/benchmarks/<card>.json and its page,
# then the experiments on real models.
gpu: .venv/.linked
	$(BIN)/python -m pytest -q -m gpu tests
	$(BIN)/python -m draftproof.fast.bench --full --device cuda
	$(BIN)/draftproof experiment --device cuda --out experiments-cuda.jsonl

docs: .venv/.linked
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build

clean:
	rm -rf .venv/.linked build dist *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache
