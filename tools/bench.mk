# Measurements: included by the Makefile. Their code is in tools/bench.

BENCH := .venv-bench

bench-marts: $(READY)  ## Time builds over 60 million rows: full, of one new hour, live
	@$(BIN)/python -m tools.bench.marts

bench-cluster: $(READY) $(SPARK)/.ready  ## Time builds on DuckDB and on 1 to 3 Spark executors (MILLIONS=8 FIXES=2 EXECUTORS="1 2 3"; half an hour, Java 17)
	@$(SPARK)/bin/python -W ignore -m tools.bench.cluster --millions $(or $(MILLIONS),8) --fixes $(or $(FIXES),2) \
	  --executors $(or $(EXECUTORS),1 2 3)

bench-outlets: $(READY)  ## Measure exports of two million rows (make bench-outlets N=100000)
	@tests/postgres.sh $(BIN)/python -m tools.bench.outlets $(N)

CONNECTORS := $(patsubst %,$(BENCH)-%/.ready,airbyte singer singer-target)

bench: $(READY) $(BENCH)/.ready $(CONNECTORS)  ## Compare fleetlake with its peers (make bench ONLY=alerts,script,fleetlake N=20000 ROUNDS=1)
	@$(BIN)/python -m tools.bench --only "$(ONLY)" --rounds $(or $(ROUNDS),3) $(if $(N),--records $(N))

$(BENCH)/.ready $(CONNECTORS): $(BENCH)%/.ready: requirements/bench%.lock
	@echo "Setting up $(@D): a minute, once."
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --no-deps --require-hashes -r $<
	@touch $@

bench-hour: $(READY) $(BENCH)/.ready  ## Measure each hour's ingest, build and publish at 100 to 1,000 routers (N=100 ROUNDS=3 BEFORE=an-earlier-checkout)
	@$(BIN)/python -m tools.bench.hour $(if $(N),--routers $(N)) --rounds $(or $(ROUNDS),5) $(if $(BEFORE),--before $(BEFORE))

soak-year: $(READY) $(BENCH)/.ready  ## Load each hour of half a year into one lake, and see that nothing grows (DAYS=28 ROUTERS=5; hours; needs cc)
	@$(BIN)/python -m tools.bench.year --days $(or $(DAYS),182) --routers $(or $(ROUTERS),5)

bench-profile: $(READY) $(BENCH)/.ready  ## Show where a first load spends its time (make bench-profile N=20000)
	@$(BIN)/python -m tools.bench.profiled $(if $(N),--records $(N))

trace-page: $(READY)  ## Count the modules and functions that a page of alerts enters, and the whole command
	@$(BIN)/python -m tools.bench.entered

bench-lake: $(READY)  ## Measure scans, merges and builds of 20 and 100 million rows in 2 GB of memory (N=1000000 for one size)
	@$(BIN)/python -m tools.bench.lake $(if $(N),--rows $(N)) --rounds $(or $(ROUNDS),3)

bench-erase: $(READY)  ## Erase a router from a lake of 5,000,000 rows, and search every file for it (N=200000)
	@$(BIN)/python -m tools.bench.erased $(if $(N),--rows $(N))

bench-fleet: $(READY) $(BENCH)/.ready  ## Measure a day of fleets of up to 100,000 routers, and 1 to 4 workers (N="1000 2000" for some sizes, PARTS=lists, PLACE=folder, PAGE=1; needs PostgreSQL)
	@tests/postgres.sh $(BIN)/python -m tools.bench.fleet $(if $(N),--routers $(N)) \
	  $(if $(PARTS),--parts $(PARTS)) $(if $(PLACE),--place $(PLACE)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(PAGE),--page)

bench-commits: $(READY)  ## Count the commits a minute that 1, 2 and 4 processes make into one shared lake (needs PostgreSQL)
	@FSYNC=on tests/postgres.sh $(BIN)/python -m tools.bench.commits

bench-receive: $(READY)  ## Measure the intake of pushes (32 connections, at least 2,000/s), and seconds until a select sees them (SECONDS=3600 RATE=100: a soak)
	@mkdir -p data
	@$(BIN)/python -m tools.bench.receiving --seconds $(or $(SECONDS),10) --rate $(or $(RATE),0)

bench-dashboard: $(READY)  ## Time every page and filter of the dashboard over 10,000 routers and 10 million fixes (N=1000)
	@$(BIN)/python -m tools.bench.dashboard $(if $(N),--routers $(N))

bench-simulator: $(READY)  ## Measure how fast the simulated service answers
	@$(BIN)/python -m tools.bench.simulator
