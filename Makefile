# `make test` works on a machine with only Python, pip and make; `make check` is the quick look.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check table model install clean

# Captions of the pictures in examples/ by the model that ships, and a page that shows where each word looked; no PyTorch.
demo: .venv/.base
	$(BIN)/sat draw examples --out demo.html --overwrite

test: install
	$(BIN)/python -m pytest -n auto --dist worksteal

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/oxlint show_attend_tell
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# The paper's table on Flickr8k with ours beside it. With the captions in benchmarks/captions nothing is trained; without them eight processor hours are.
DATA ?= flickr8k
table: install
	$(BIN)/python benchmarks/table.py $(DATA) features/lite2 runs/table

# The model that ships, from Flickr8k: prepared, tuned, rewarded, averaged, exported and scored on dev.
model: install
	$(BIN)/python benchmarks/ship.py $(DATA) runs/ship

install: .venv/.installed

.venv/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -e .
	touch $@

# torch by exact version first: where a CPU build is offered it is this one; an open range may pull gigabytes of CUDA.
.venv/.installed: .venv/.base
	$(BIN)/python -m pip install -q torch==2.13.0
	$(BIN)/python -m pip install -q -e ".[train,meteor,dev]"
	touch $@

clean:
	rm -rf .venv
