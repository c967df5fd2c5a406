# `make help` lists what there is. Everything runs in environments of its own, made on first use.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# What is installed, and with which extras; the later ones hold the earlier ones.
RUNTIME := $(VENV)/.runtime
TEST := $(VENV)/.test
LINT := $(VENV)/.lint
CHECK := $(VENV)/.check
CLIENTS := .venv-clients/.made
# The tests of a file share what it opens and computes. A worker that has crashed is not replaced:
# with loadfile, pytest-xdist may then wait for ever.
PARALLEL := -n auto --dist loadfile --max-worker-restart 0
HALF := $(if $(SMALL),--half)
# Python compiles what is imported, a small part of what is installed.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
# Tests start processes, each of which would compile dp_sql anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo dashboard test test-thorough lint check slow docs bench rivals papers test-clients test-integrations \
	test-dialect serve-test spark superset package test-oldest test-newest test-matrix clean

help:  ## list the targets
	@awk -F ':.*## +' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

DECLARED := pyproject.toml $(wildcard udfs/count_distinct/*.[ch])
EXTRAS :=
$(TEST): EXTRAS := [test]
$(LINT): EXTRAS := [test,check]
$(CHECK): EXTRAS := [test-all,check]
$(RUNTIME) $(TEST) $(LINT) $(CHECK): $(DECLARED)
	@test -n "$(PYTHON)" || { echo "dp_sql needs Python 3.11 or newer" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making the environment $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python $(PIP) --editable ".$(EXTRAS)"
	@touch $(RUNTIME) $(if $(EXTRAS),$(TEST)) $(if $(findstring check,$(EXTRAS)),$(LINT)) $@

$(CLIENTS): $(DECLARED)
	@test -x .venv-clients/bin/python || $(PYTHON) -m venv .venv-clients
	@.venv-clients/bin/python $(PIP) --editable ".[test-clients]"
	@touch $@

demo: $(RUNTIME)  ## an owner's policy; an analyst's cost, answer, refusal and budget
	@$(BIN)/dp-sql demo

dashboard: $(RUNTIME)  ## a page with a budget, at http://localhost:8501
	@$(BIN)/python $(PIP) --editable ".[dashboard]"
	@$(BIN)/streamlit run examples/dashboard/app.py

test: $(TEST)  ## the tests on small cases, without optional packages: five minutes (THOROUGH=1: all of them, SMALL=1: half)
	$(BIN)/python -m pytest $(PARALLEL) $(if $(THOROUGH),-m "not slow") $(HALF)

test-thorough: $(TEST)  ## the larger inputs and further cases that `make test` leaves out: ten minutes more
	$(BIN)/python -m pytest $(PARALLEL) -m "thorough and not slow"

lint: $(LINT)  ## format, lint, types and the floors' imports, nothing changed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(CHECK)  ## what a commit must pass: lint and all tests but the clients'
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

slow: $(CHECK)  ## the long statistical tests as well
	$(BIN)/python -m pytest $(PARALLEL) -m "slow or not slow" -o faulthandler_timeout=3600
	out=$$(mktemp -d) && $(MAKE) papers QUICK=1 OUT=$$out && rm -r $$out

docs:  ## the site, in build/site: every link is checked
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python $(PIP) --editable ".[docs]"
	@.venv-docs/bin/python -m docs.site.build

bench: $(CHECK)  ## measure against the same questions without privacy; writes benchmarks/RESULTS.md (ONLY="groups …")
	$(BIN)/python -m benchmarks $(ONLY)

RIVALS := opendp smartnoise pipelinedp tumult qrlew
rivals:  ## the same questions to other libraries (Tumult needs Java); writes two pages of docs/
	@for name in dp_sql $(RIVALS); do \
		test -x .venv-rivals/$$name/bin/python || $(PYTHON) -m venv .venv-rivals/$$name; \
	done
	@.venv-rivals/dp_sql/bin/python $(PIP) --editable ".[papers]"
	@for name in $(RIVALS); do \
		.venv-rivals/$$name/bin/python $(PIP) -r benchmarks/rivals/requirements/$$name.txt \
			|| echo "$$name cannot be installed here and is left out" >&2; \
	done
	.venv-rivals/dp_sql/bin/python -m benchmarks.rivals $(LIBRARIES)
	.venv-rivals/dp_sql/bin/python -m benchmarks.rivals.distinct $(LIBRARIES)

papers:  ## the papers' tables and figures: QUICK=1, DATA=folder, FILES="name=file …", OUT=folder
	@test -x .venv-papers/bin/python || $(PYTHON) -m venv .venv-papers
	@.venv-papers/bin/python $(PIP) --editable ".[papers]"
	@.venv-papers/bin/python -m examples.papers $(if $(QUICK),--quick) $(if $(DATA),--data "$(DATA)") \
		$(if $(OUT),--out "$(OUT)") $(FILES)

test-clients: test-integrations test-dialect  ## Streamlit, a browser, notebooks, Ibis, polars …, in an environment of its own

test-integrations: $(CLIENTS)
	.venv-clients/bin/python -m pytest -n auto --max-worker-restart 0 -m "not slow" tests/integrations

test-dialect: $(CLIENTS)
	cd tests/integrations/suites && ../../../.venv-clients/bin/python -m pytest

serve-test:  ## the real duckdb shell through a Quack server, in an environment of its own
	@test -x .venv-serve/bin/python || $(PYTHON) -m venv .venv-serve
	@.venv-serve/bin/python $(PIP) --editable ".[test,serve]" duckdb-cli==1.5.5 adbc-driver-quack==0.1.0a11
	.venv-serve/bin/python -m pytest tests/server -n 0 -m "slow or not slow"

spark:  ## Apache Spark, for real, in an environment of its own (needs Java 17; minutes; SLOW=1 for all of it)
	@command -v java >/dev/null || { echo "Spark needs Java 17 or newer, and there is no java here" >&2; exit 1; }
	@test -x .venv-spark/bin/python || $(PYTHON) -m venv .venv-spark
	@.venv-spark/bin/python $(PIP) --editable ".[test,spark]"
	for kind in cluster connect; do \
		DP_SQL_TEST_SPARK=$$kind .venv-spark/bin/python -m pytest -n 0 tests/engines/spark \
			-m "$(if $(SLOW),slow or )not slow" || exit 1; \
	done

superset:  ## Apache Superset over dp_sql, for real, in an environment of its own (minutes)
	@p=$$(.ci/python 3.11) && test -n "$$p" || { echo "Superset is tested with Python 3.11" >&2; exit 1; }; \
		test -x .venv-superset/bin/python || $$p -m venv .venv-superset
	@.venv-superset/bin/python $(PIP) --editable ".[sqlalchemy]" pytest pytest-xdist hypothesis \
		-r examples/superset/requirements.txt
	.venv-superset/bin/python -m pytest -n 0 -m "not slow" tests/integrations/test_dbapi.py \
		tests/integrations/test_sqlalchemy*.py tests/integrations/test_superset_queries.py
	.venv-superset/bin/python examples/superset/try_superset.py --keep --picture docs

# The oldest supported versions together, and the newest of each supported Python that is here.
OLDEST := duckdb==1.5.3 sqlglot==28.0.0 numpy==1.26.4 pyarrow==17.0.0
matrix_run = echo "== Python $(1): $(2)" && p=$$(.ci/python $(1)) && \
	{ test -n "$$p" || { echo "   no Python $(1) here; left out"; exit 0; }; } && \
	{ test -x .venv-$(3)/bin/python || $$p -m venv .venv-$(3); } && \
	.venv-$(3)/bin/python $(PIP) --editable ".[test-all]" $(2) && \
	.venv-$(3)/bin/python -m pytest $(PARALLEL) -m "not slow and not pure$(if $(SMALL), and not thorough)" $(HALF) $(MORE)

test-oldest:  ## run the tests with the oldest supported versions (SMALL=1: half of the cases of `make test`)
	@$(call matrix_run,3.11,$(OLDEST),oldest)

test-newest:  ## run the tests with the newest ones, on the newest Python
	@$(call matrix_run,3.13,--upgrade duckdb sqlglot numpy pyarrow,newest)

test-matrix: test-oldest test-newest  ## the same, and versions between them
	@$(call matrix_run,3.12,--upgrade duckdb==1.5.6 sqlglot==29.*,middle)

package:  ## the archives for PyPI in dist/, checked; the source archive tests itself
	@test -x .venv-package/bin/python || $(PYTHON) -m venv .venv-package
	@.venv-package/bin/python $(PIP) build twine
	rm -rf dist build/source && mkdir -p build/source
	.venv-package/bin/python -m build && .venv-package/bin/twine check --strict dist/*
	tar -xzf dist/*.tar.gz -C build/source --strip-components 1
	$(MAKE) -C build/source test THOROUGH=1 PYTHON="$$PWD/.venv-package/bin/python"

clean:  ## remove the environments and what they made
	rm -rf .venv .venv-* .cache build dist *.egg-info
