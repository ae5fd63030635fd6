# make env     sets up .venv with the pinned versions of requirements-dev.txt
# make demo    trains the example and logs to TensorBoard
# make test    tests every promise; run it before each commit
# make quick   runs only the fast tests of these (no processes, no browser, no services)
# make long    runs the tests that make test leaves out: whole matrices, examples, pages that train, real text, services
# make lint    checks style and types
# make docs    builds the documentation in docs/_build
# make fuzz    compares random inputs with slow programs and with sacreBLEU, for SECONDS=60
# make bench   measures speed beside other implementations
# make release builds the wheel, and runs the tests of the sdist on it in an environment of its own
# make lowest  runs the tests with the lowest versions that pyproject.toml allows, in an environment of its own
# make clean   removes all that the others have made

PYTHON ?= python3
SECONDS ?= 60
BIN := .venv/bin

# uv does not compile modules, so their first import does. If that were not saved, each process would take 5 s longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env demo test quick long lint docs fuzz bench lowest release clean

help:
	@sed -n 's/^# //p' $(MAKEFILE_LIST)

env: .venv/.done

.venv/.done: requirements-dev.txt pyproject.toml .ci/install.py
	@echo "Setting up .venv with the packages of requirements-dev.txt; this takes about half a minute and 2 GB, once"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python .ci/install.py --requirement requirements-dev.txt
	@$(BIN)/python .ci/install.py --no-deps --no-build-isolation --editable .
	@touch $@

demo: env
	@echo "Training a small Transformer to translate (by default for one to two minutes)"
	@$(BIN)/python examples/train_translation.py $(ARGS)

test: env
	$(BIN)/python -m pytest --numprocesses auto $(ARGS)

quick: env
	$(BIN)/python -m pytest --numprocesses auto -m "not slow and not long" $(ARGS)

long: env
	$(BIN)/python -m pytest --numprocesses auto -m long $(ARGS)

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/check_calls.py

docs: env
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build $(ARGS)

fuzz: env
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

bench: env
	$(BIN)/python benchmarks/run.py $(ARGS)

lowest:
	bash .ci/lowest $(ARGS)

release:
	bash .ci/build
	bash .ci/release $(ARGS)

clean:
	rm -rf .venv .venv-lowest dist docs/_build runs
