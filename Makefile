# `make demo` and `make test` need only Python 3.11 to 3.13 and make. The first run installs
# everything else into .venv from requirements.lock, by version and hash.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK := .venv-spark
PANDAS := .venv-pandas
TRACKS := .venv-tracks
SITE := .venv-docs
BROWSER := .venv-browser
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export DO_NOT_TRACK := 1
unexport PYTHONDONTWRITEBYTECODE  # compiling 240 test files takes ten seconds

# What runs with the README's commands alone; the rest has targets that bring what it needs.
HERE := not site and not browser and not postgres and not spark and not pandas

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*## /{print $$1}' Makefile tools/bench.mk)

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Install everything into .venv (other targets do this automatically)

$(READY): requirements.lock pyproject.toml
	@echo "Setting up $(VENV): one to two minutes, once."
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else \
	"fleetlake needs Python 3.11 to 3.13, and this is %d.%d: make PYTHON=python3.12" % v[:2])'
	@echo "  Creating $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@echo "  Installing the packages of requirements.lock: most of the time …"
	@$(BIN)/python -m pip install -qq --no-compile --no-deps --require-hashes -r requirements.lock
	@echo "  Installing fleetlake from this folder …"
	@$(BIN)/python -m pip install -qq --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m pip check -q  # the lock is complete, so nothing was resolved
	@echo "  Compiling Python files, so that commands start fast …"
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib src || true  # some ship templates, or files for newer Pythons
	@touch $@

demo: $(READY)  ## Simulate a fleet, load it, build the marts, publish them as Parquet
	@$(BIN)/fleetlake demo

test: check run-tests  ## Check, then run every test except the slow proofs

run-tests: $(READY)  ## Run these tests without the check
	@$(BIN)/python -m pytest -n $(CORES) --dist loadgroup -m "not proof and not release and $(HERE)"

# Of each version: the first interpreter that starts, on PATH or among pyenv's.
PYTHON_OF = $(firstword $(foreach python,python$(1) \
	$(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python),$(shell $(python) -c 'import sys; \
	print(sys.executable)' 2>/dev/null)))

test-pythons:  ## The same on Python 3.11, 3.12 and 3.13, as far as the machine has them
	@$(foreach version,3.11 3.12 3.13,$(if $(call PYTHON_OF,$(version)), \
	  echo "Python $(version): $(call PYTHON_OF,$(version))" && \
	  $(MAKE) --no-print-directory test PYTHON=$(call PYTHON_OF,$(version)) VENV=.venv-$(version) &&, \
	  echo "Python $(version) is not here: left out." &&)) true

coverage: $(READY)  ## Print how much of each module the tests of `make test` run
	@mkdir -p .cache
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -q -n $(CORES) --dist loadgroup -m "not proof and not release and $(HERE)"
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --skip-covered --sort=cover

proofs: $(READY)  ## Run the slow proofs: servers, kills, the README, properties on many examples
	@$(BIN)/python -m pytest -n $(CORES) --dist loadgroup --no-loadscope-reorder \
	  -m "(proof or hypothesis) and not release and $(HERE)" --hypothesis-profile thorough

release-proofs: $(READY)  ## Run the longer proofs before a release: wheel, guides, notebooks, older lakes, damage, power cuts, own models, every endpoint (needs cc)
	@$(BIN)/python -m pytest -n $(CORES) --dist loadgroup -m "release and $(HERE)"

check: $(READY)  ## Lint, formatting, words, types, and marts that changed under their readers
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@! grep -rnwiE 'nobody|somebody|whoever' src flows sql docs *.md --include=*.py --include=*.md --include=*.sql --include=*.toml \
	  || { echo "Name the person, process or tool that you mean."; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/python -m tools.contract_changes

# Uncommitted files, without deleted ones.
CHANGED = $(wildcard $(shell git ls-files --modified --others --exclude-standard -- '*.py'))
TYPED = $(filter src/% flows/%,$(CHANGED))

check-one: $(READY)  ## Quick loop: lint and types of uncommitted files, one test (FILE=tests/test_x.py)
	@test -n "$(FILE)" || { echo "Name a test: make check-one FILE=tests/test_cursors.py"; exit 2; }
	@$(if $(CHANGED),$(BIN)/ruff check --quiet $(sort $(CHANGED)))
	@$(if $(CHANGED),$(BIN)/ruff format --check --quiet $(sort $(CHANGED)))
	@$(if $(TYPED),$(BIN)/mypy --no-error-summary $(sort $(TYPED)))
	@$(BIN)/python -m pytest -q $(FILE) $(if $(K),-k "$(K)")

format: $(READY)  ## Fix formatting and what lint can fix
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format --quiet

notebooks: $(READY)  ## Run the notebooks of docs/notebooks and store their outputs
	@$(BIN)/python -m tools.notebooks

reference: $(READY)  ## Render the tables of docs/reference from the code
	@$(BIN)/python -m tools.reference

recorded: $(READY)  ## Record again what the simulator serves and what the commands print
	@$(BIN)/python -m tools.recorded.answers
	@$(BIN)/python -m tools.recorded.printed

vendor: $(READY)  ## Fetch the dashboard's vendored scripts and outlines again, and compare (needs npm)
	@$(BIN)/python -m tools.vendor

docs: $(READY)  ## Render the SQL project as a site, with lineage: data/docs/index.html
	@$(BIN)/python -m tools.sql_docs

site: $(READY) $(SITE)/.ready  ## Build the documentation site, with warnings as errors: data/site/index.html
	@$(BIN)/python -m tools.site_pages data/site-pages
	@rm -rf data/site
	@$(SITE)/bin/zensical build --strict

site-check: $(READY) $(SITE)/.ready  ## Check every link of the site, and run the commands of its pages (some minutes)
	@$(BIN)/python -m pytest -q tests/test_site.py

test-dashboard: $(READY) $(BROWSER)/.ready  ## Look at every page of the dashboard in Chromium (needs chromium and npm; CHROMIUM=path)
	@$(BIN)/python -m pytest -q tests/dashboard/test_browser.py

dashboard-picture: $(READY) $(BROWSER)/.ready  ## Take the picture of README and docs again, of the demo's lake (needs chromium)
	@$(BIN)/python -m tools.dashboard_picture

$(BROWSER)/.ready: requirements/browser.lock
	@echo "Setting up $(BROWSER): half a minute, once."
	@$(PYTHON) -m venv $(BROWSER)
	@$(BROWSER)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@npm pack --silent --pack-destination $(BROWSER) axe-core@4.14.1 > /dev/null
	@touch $@

$(SITE)/.ready: requirements/docs.lock
	@echo "Setting up $(SITE): half a minute, once."
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@touch $@

crash-test: $(READY)  ## Kill ingest and maintain in turn, N times (make crash-test N=200), and compare with the truth
	@CRASH_TEST_KILLS=$(or $(N),200) CRASH_TEST_SEED=$(or $(SEED),5) $(BIN)/python -m pytest -q -s tests/test_crash.py

broken-test: $(READY)  ## Ingest twice at once while 30% of the responses are broken (SEED=5), and compare with the truth
	@CRASH_TEST_SEED=$(or $(SEED),5) $(BIN)/python -m pytest -q -s tests/test_crash.py -k broken_responses

test-questions: $(READY)  ## Ask 120 questions by the tools of assistants of simulated worlds (make test-questions SEEDS="1 2 3"), and compare with the truth
	@QUESTION_SEEDS="$(or $(SEEDS),1 2 3)" $(BIN)/python -m pytest -q tests/marts/test_asked_questions.py

power-test: $(READY)  ## Cut the power N times (make power-test N=100): what was not flushed is gone; compare with the truth (needs cc)
	@POWER_TEST_CUTS=$(or $(N),100) $(BIN)/python -m pytest -q -s tests/power

backup-test: $(READY)  ## Kill backups during loads, restore, compare with the truth, N rounds (N=20)
	@BACKUP_TEST_ROUNDS=$(or $(N),20) $(BIN)/python -m pytest -q -s tests/test_backup_kill.py

damage-test: $(READY)  ## Damage N lakes at random (make damage-test N=200), check, repair, compare with the truth
	@DAMAGE_TEST_ROUNDS=$(or $(N),200) DAMAGE_TEST_SEED=$(or $(SEED),1) \
	  $(BIN)/python -m pytest -q -s tests/test_random_damage.py

kill-test: $(READY)  ## Kill erase and repair at random moments, N rounds each (make kill-test N=20), and run them again
	@KILL_TEST_ROUNDS=$(or $(N),20) $(BIN)/python -m pytest -q -s tests/test_erase_kill.py tests/test_repair_kill.py

fuzz-simulator: $(READY)  ## Send N odd requests (make fuzz-simulator N=20000) to the simulator
	@FUZZ_REQUESTS=$(or $(N),20000) FUZZ_SEED=$(or $(SEED),1) \
	  $(BIN)/python -m pytest -q tests/simulator/test_fuzz.py

mart-truth: $(READY)  ## Compare the marts with what happened to 300 routers in 35 days and whole lives of batteries
	@$(BIN)/python -m tools.battery_lives
	@$(BIN)/python -m tests.marts.mart_truth

mart-increments: $(READY)  ## Fill one lake in 50 steps, with late rows and kills, and one at once; compare
	@MART_INCREMENTS=50 $(BIN)/python -m pytest -q -s tests/marts/test_identical.py

cluster: $(READY) $(SPARK)/.ready  ## Run a Spark cluster on this machine until Ctrl-C (needs Java 17 or later)
	@$(SPARK)/bin/python -m tools.spark_cluster

test-cluster: $(READY) $(SPARK)/.ready  ## Build marts on a Spark cluster, with INCREMENTS=3 and KILLS=10, and compare (25 minutes, Java 17)
	@FLEETLAKE_SPARK_PYTHON=$(abspath $(SPARK))/bin/python \
	  $(BIN)/python -m pytest -q -s -m spark tests/marts tests/exporters $(if $(K),-k "$(K)")

$(SPARK)/.ready: requirements/spark.lock $(READY)
	@echo "Setting up $(SPARK): a few minutes, once."
	@$(PYTHON) -m venv $(SPARK)
	@$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
	  > $$($(SPARK)/bin/python -c 'import site; print(site.getsitepackages()[0])')/layer.pth
	@$(SPARK)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@touch $@

test-pandas: $(READY) $(PANDAS)/.ready  ## Read lakes and snapshots with pandas, in an environment that has it
	@$(PANDAS)/bin/python -m pytest -q -m pandas tests/marts tests/test_analysis.py

$(PANDAS)/.ready: requirements/pandas.lock $(READY)
	@echo "Setting up $(PANDAS): some seconds, once."
	@$(PYTHON) -m venv $(PANDAS)
	@$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
	  > $$($(PANDAS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/layer.pth
	@$(PANDAS)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@touch $@

compare-tracks: $(READY) $(TRACKS)/.ready  ## Compare trips and stops with those that a published library finds in the same fixes (some minutes)
	@$(BIN)/python -m tools.compare_tracks $(TRACKS)/bin/python

$(TRACKS)/.ready: requirements/tracks.lock
	@echo "Setting up $(TRACKS): a few minutes, once."
	@$(PYTHON) -m venv $(TRACKS)
	@$(TRACKS)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@touch $@

up: $(READY)  ## Run a Prefect server, a worker and all schedules against a simulated service
	@$(BIN)/fleetlake prefect up

soak-prefect: $(READY)  ## Run two simulated days of every schedule, kill -9 flow, worker and server, compare with the truth
	@DAYS=$(DAYS) SPEED=$(SPEED) $(BIN)/python -m tests.flows.soak

test-outlets: $(READY)  ## Run the tests that need PostgreSQL (apt-get install postgresql; the target starts it)
	@tests/postgres.sh $(BIN)/python -m pytest -q -s -m postgres tests $(if $(K),-k "$(K)")

crash-test-machines: $(READY)  ## Kill two of three workers on one shared lake, N rounds (N=20)
	@CRASH_TEST_ROUNDS=$(or $(N),20) tests/postgres.sh $(BIN)/python -m pytest -q -s -m postgres tests/machines/test_crash.py

# An overlay of a DuckDB and the extensions of its version: .venv has everything else.
ENGINE = .venv-duckdb
EXTENSIONS_OF = $(foreach name,ducklake sqlite-scanner,$(1)-$(name)==$(2))

$(ENGINE)-%/.ready: requirements.lock
	@rm -rf $(@D)
	@$(BIN)/python -m pip install -qq --no-deps --target $(@D) duckdb==$*
	@$(BIN)/python -m pip install -qq --no-deps --target $(@D) $(call EXTENSIONS_OF,duckdb-core-ext,$*) 2>/dev/null \
	  || $(BIN)/python -m pip install -qq --no-deps --target $(@D) $(call EXTENSIONS_OF,duckdb-extension,$*)
	@touch $@

engine-fuzz: $(READY) $(DUCKDB:%=$(ENGINE)-%/.ready)  ## Compare every snapshot of N random lakes (N=30) with dicts (DUCKDB="1.5.4 1.5.5" for other versions than .venv's)
	@for version in $(or $(DUCKDB),installed); do \
	  PYTHONPATH=$(ENGINE)-$$version ENGINE_FUZZ_RUNS=$(or $(N),30) $(BIN)/python -m pytest -q -s -m release \
	  tests/engine/test_engine_fuzz.py || exit 1; done

# Debian's package of Prometheus, unpacked: the rules are tested by what reads them.
PROMTOOL = $(or $(shell command -v promtool),.cache/promtool/usr/bin/promtool)

.cache/promtool/usr/bin/promtool:
	@mkdir -p .cache/promtool
	@cd .cache/promtool && { apt-get -qq download prometheus 2>/dev/null || { apt-get -qq update && \
	  apt-get -qq download prometheus; }; } && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

test-alerts: $(PROMTOOL)  ## Test the alert rules of docs/monitoring with promtool (from Debian's package, if there is none)
	@$(PROMTOOL) check rules docs/monitoring/alerts.yml
	@$(PROMTOOL) test rules docs/monitoring/alerts_test.yml

soak: $(READY)  ## Read for N seconds (N=120) while three processes write, and print how long reads waited
	@SOAK_SECONDS=$(or $(N),120) SOAK_LONGEST_WAIT=1 $(BIN)/python -m pytest -q -s tests/test_soak.py

soak-maintain: $(READY)  ## Maintain N new lakes (N=100): DuckLake must not abort the process
	@SOAK_LAKES=$(or $(N),100) $(BIN)/python -m pytest -q -s tests/test_operations.py -k lake_after_lake

soak-receive: $(READY)  ## Push N alerts to two receivers, kill everything around them, compare with the truth (ALERTS=50000 KILLS=100)
	@SOAK_ALERTS=$(or $(ALERTS),50000) SOAK_KILLS=$(or $(KILLS),100) SOAK_FOLDERS=$(or $(FOLDERS),1) \
	  SOAK_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -q -s tests/receiving/test_soak.py

include tools/bench.mk

contract-table: $(READY)  ## Count the simulator's tests by section of the contract
	@$(BIN)/python tests/simulator/sections.py

# Everything in the wheel is as old as its commit, so that the same commit gives the same bytes.
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

wheel: $(READY)  ## Build dist/fleetlake-*.whl; the same commit gives the same bytes
	@SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m hatchling build --target wheel --directory dist

sbom: $(READY)  ## Write the software bill of materials: dist/fleetlake-*.cdx.json (CycloneDX)
	@SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m tools.sbom

release: $(READY)  ## Commit and tag a release here (VERSION=0.3.0), with its wheel, lake and bill of materials; push nothing
	@$(BIN)/python -m tools.release $(VERSION)

LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-annotate --no-strip-extras --quiet

lock:  ## Resolve all lock files again from pyproject.toml (needs uv)
	@$(LOCK) pyproject.toml --extra all --group dev --output-file requirements.lock > /dev/null
	@for group in bench bench-airbyte bench-singer bench-singer-target browser docs pandas spark tracks; do \
	  $(LOCK) --group $$group --output-file requirements/$$group.lock > /dev/null || exit 1; done

clean:  ## Remove .venv, caches, and what the demo and simulations left in data
	@rm -rf $(VENV) .venv-3.* $(SPARK) $(PANDAS) $(TRACKS) $(BENCH)* $(SITE) $(BROWSER) $(ENGINE)-* .mypy_cache .pytest_cache .ruff_cache .hypothesis data/lake data/simulated data/docs dist
	@find src flows tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
