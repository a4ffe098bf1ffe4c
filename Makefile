# Thin on purpose: each target is one obvious command. `make check` and `make test` work alone on a
# fresh machine with Python 3.11 or newer, make and a C compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: check test lint types proofs symbolic bench gpu docs develop clean

# The environment is rebuilt only when the dependency lists change.
.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q --constraint constraints.txt "setuptools>=77" wheel
	$(BIN)/pip install -q --constraint constraints.txt --editable ".[test]" --config-settings editable_mode=strict
	touch $@

check: .venv/.ready
	$(BIN)/draftproof check fast transformers

test: .venv/.ready
	$(BIN)/python -m pytest -q -n 2

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.ready
	$(BIN)/mypy -p draftproof.reference -p draftproof.fast -p draftproof.conformance

symbolic: .venv/.ready
	$(BIN)/python proofs/symbolic/prove.py

proofs: .venv/.ready symbolic
	PYTHON=$(abspath $(BIN)/python) $(MAKE) -C proofs

bench: .venv/.ready
	$(BIN)/python -m draftproof.conformance.bench_enumeration
	$(BIN)/python -m draftproof.fast.bench

# On a machine with a GPU: the tests that need one, then docs/benchmarks/<card>.json and its page.
gpu: .venv/.ready
	$(BIN)/python -m pytest -q -m gpu tests/fast
	$(BIN)/python -m draftproof.fast.bench --full --device cuda

docs: .venv/.ready
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build

# A strict editable install links files one by one: run this after adding a module.
develop:
	$(BIN)/pip install -q --no-deps --editable . --config-settings editable_mode=strict

clean:
	rm -rf build dist *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache
