# Two commands do all the set-up on a machine that has only Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A worker more than there are cores, since some tests wait; a worker that has no tests left takes some from the others.
PARALLEL ?= -n $(shell $(PYTHON) -c "import os; print(min(os.cpu_count() + 1, 8))") --dist worksteal
PIP = $(BIN)/python -m pip install --quiet -c constraints.txt
# pip would compile the modules one after another; here all cores do. Some packages hold files that do not compile.
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true

# Otherwise every process that a test starts compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check run-tests test-gpu docs package clean

demo: $(VENV)/.installed
	$(BIN)/gnas search cluster-mini --time 100s --out runs/demo --force

# Linters, types and docs beside the tests, some of which wait.
test: $(VENV)/.installed-dev
	$(MAKE) --jobs 2 check run-tests

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

run-tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(PARALLEL)

test-gpu: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m gpu -rs

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# A wheel and an sdist in dist/; both install in an environment of their own, and the wheel works there.
package: $(VENV)/.installed-dev
	rm -rf dist build/wheel-test
	$(BIN)/python -m build
	$(PYTHON) -m venv build/wheel-test
	build/wheel-test/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd build/wheel-test && bin/gnas doctor && bin/gnas search cluster-mini --strategy single-level --preset fast --epochs 1 \
		--set search_epochs=1 --baselines gcn --out runs/smoke --force && bin/gnas export runs/smoke --force
	build/wheel-test/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.tar.gz
	build/wheel-test/bin/gnas --version

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --no-compile -e .
	$(COMPILE)
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --no-compile -e ".[dev]"
	$(COMPILE)
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
