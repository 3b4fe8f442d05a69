# One verb a target. `make demo` and `make test` need Python 3.11+, make and the package registries, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WITH_SPARK := $(VENV)/.with-spark
WITH_EXTRAS := $(VENV)/.with-extras
FUZZ_SECONDS ?= 60
# Clusters are many short processes: modules are compiled once, not by each of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check docs bench fuzz clean lock

demo: $(WITH_SPARK)  ## a cluster, clients, a broker killed under load, Spark over it all, and a report
	$(BIN)/epoka demo --to build/demo

test: $(WITH_EXTRAS) check  ## everything: check, then all tests
	$(PYTHON) .ci/debian.py kcat chromium
	$(BIN)/pytest -n 3 --dist loadgroup --max-worker-restart 0

check: $(READY)  ## format, lint, types, import contracts, generated code and pages: under a minute
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m epoka.wire.generate --check
	$(BIN)/python -m epoka.reference --check

docs: $(WITH_EXTRAS)  ## the site, into build/site, with every link checked
	$(BIN)/properdocs build --quiet

bench: $(WITH_EXTRAS)  ## figures, each a ratio against a named peer measured in the same run
	$(BIN)/python -m benchmarks

fuzz: $(READY)  ## feed the decoder hostile bytes for a minute
	$(BIN)/pip install --quiet atheris
	mkdir -p build/fuzz
	$(BIN)/python fuzz/fuzz_decoder.py --seconds $(FUZZ_SECONDS) --keep build/fuzz

lock:  ## pin today's versions
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --extra test --no-header --no-annotate pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --extra spark --no-header --no-annotate pyproject.toml -c requirements.lock -o requirements-spark.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --extra spark --extra delta --extra pipelines --extra zookeeper --extra dashboard --extra browser --extra docs --no-header --no-annotate pyproject.toml -c requirements.lock -c requirements-spark.lock -o requirements-extras.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

$(WITH_EXTRAS): $(WITH_SPARK) requirements-extras.lock
	@echo "installing what the other extras need"
	$(BIN)/pip install --quiet --require-hashes -r requirements-extras.lock
	touch $(WITH_EXTRAS)

$(WITH_SPARK): $(READY) requirements-spark.lock
	@echo "installing Spark and a Java runtime for it: 700 MB, a minute or two, once"
	$(BIN)/pip install --quiet --require-hashes -r requirements-spark.lock
	touch $(WITH_SPARK)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Epoka needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what Epoka and its tests need"
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps -e .
	touch $(READY)
