# `make test` works on a machine with only Python, pip and make; `make check` is the quick look.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test check install clean

test: install
	$(BIN)/python -m pytest -n auto

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto -m "not slow"

install: .venv/.installed

# torch by exact version first: where a CPU build is offered it is this one; an open range may pull gigabytes of CUDA.
.venv/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q torch==2.13.0
	$(BIN)/python -m pip install -q -e ".[train,meteor,dev]"
	touch $@

clean:
	rm -rf .venv
