# Everything starts here. `make run` and `make test` need Python 3.11 or newer and a network that reaches PyPI, nothing else.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
BIN := .venv/bin
SYNCED := .venv/.synced
JOBS ?= 2
# Tests wait for sessions and processes: one worker more than cores.
WORKERS ?= $(shell echo $$(($(JOBS) + 1)))
# A worker keeps a whole file: an Apache Kafka, a JVM and a browser start once for each file.
BY_FILE = -n $(JOBS) --dist loadfile --no-loadscope-reorder --slow-files-first
ROUNDS ?= 500
MODES ?= --tear
# What `make fuzz` does: which entrance, how many minutes for each, and where its chance begins.
ENTRANCE ?= all
MINUTES ?= 1
# As many inputs for each entrance, in the place of minutes.
INPUTS ?=
soak: MINUTES = 60
# Which faults `make faults` plays: names with spaces between; all of them.
FAULT ?=
SEED ?= 0
# Commit from which `make lint` judges the words of a change.
BASE ?= HEAD~1
# Modules that `make mutants` mutates: all that pyproject.toml names.
MODULES ?=
FILES ?=
# Which seeds of which worlds of the simulator `make seeds` sweeps.
SEEDS ?= 0..20000
WORLDS ?= group transactions moves secured modern
KDC := krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc
# Compiled once and kept: tests and Spark start hundreds of Python processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env run test lint types types-of-tests style pages check seeds check-history peers interop kdc kerberos browser screenshots campaigns fuzz mutants crash faults soak suites bench wheel audit docs kafka fmt clean

help: ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.tools/bin/uv:
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'

$(SYNCED): pyproject.toml lab/pyproject.toml uv.lock src/kohort/console/vendor.json | $(UV)
	$(UV) sync --frozen --all-extras --no-extra kerberos --quiet
	@$(BIN)/python tools/vendor.py
	@touch $@

env: $(SYNCED) ## Make the environment (.venv) from the lock file.

run: $(SYNCED) ## The main job: flights and weather of 2013 through a consumer group onto Spark, every row accounted for.
	$(BIN)/kohort demo --page build/demo.html

test: $(SYNCED) ## All tests but campaigns, toolchains and browser: unit to simulator, clients from PyPI, docs, Spark.
	$(BIN)/pytest tests --ignore=tests/browser -m 'not campaign and not kafka and not toolchain' -n $(WORKERS) --dist worksteal

lint: $(SYNCED) ## Format, lint, types, layers, the pages made from the code.
	@$(MAKE) --no-print-directory --keep-going --output-sync --jobs $(JOBS) types-of-tests types style pages

types: $(SYNCED)
	$(BIN)/mypy

types-of-tests: $(SYNCED)
	$(BIN)/mypy --config-file tests/mypy.ini

style: $(SYNCED)
	$(BIN)/ruff format --check src lab tests bench examples tools
	$(BIN)/ruff check src lab tests bench examples tools
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/words.py --check
	$(BIN)/python tools/words.py --check --change $(BASE)

pages: $(SYNCED)
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/causes.py --check
	$(BIN)/python tools/rooms.py --check
	$(BIN)/python tools/schemas.py --check
	$(BIN)/python tools/option_types.py --check
	$(BIN)/python lab/tools/generations.py --check
	$(BIN)/python lab/tools/campaign.py --check

check: lint ## lint, unit tests, some seeds: run it all day.
	$(BIN)/pytest tests/unit tests/tidy -m 'not heavy' -n $(JOBS) --dist worksteal
	$(BIN)/kohort sim run --seeds 0..10

seeds: $(SYNCED) ## Sweep seeds of every simulated world, and go on where that was interrupted: SEEDS=0..20000 WORLDS="group modern" JOBS=2.
	$(BIN)/python lab/tools/seeds.py --seeds $(SEEDS) --worlds $(WORLDS) --jobs $(JOBS)

crash: $(SYNCED) ## Kill the broker and tear its files, ROUNDS times (500), while clients work; what they saw is checked.
	$(BIN)/python lab/tools/crash/run.py --rounds $(ROUNDS) $(MODES)

check-history: $(SYNCED) ## Check histories of what clients saw: make check-history FILES="run/*.jsonl" (docs/lab/history-format.md).
	$(BIN)/kohort check-history $(FILES)

peers: $(SYNCED) ## Bring and build what `make interop` needs and would else bring itself: Apache Kafka, other clients.
	PYTHONPATH=tests KOHORT_REQUIRE_PEERS=1 $(BIN)/python -m support.peers.client_programs

interop: $(SYNCED) ## Apache Kafka, its tools, and clients in Java, Go and Node: required, not skipped.
	KOHORT_REQUIRE_PEERS=1 $(BIN)/pytest tests/interop -m '(kafka or toolchain) and not campaign' $(BY_FILE)

kdc: ## Debian's packages for `make kerberos`, unless they are here: a KDC, and the headers that gssapi is built with.
	@(for program in krb5kdc kadmin.local kinit kvno krb5-config; do command -v $$program || exit 1; done) > /dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null || \
			{ echo "Kerberos needs these packages of Debian, and only root can install them: $(KDC)"; exit 1; }; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq $(KDC) > /dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $(KDC) > /dev/null; }; }

kerberos: kdc $(SYNCED) ## Our clients at an Apache Kafka with Kerberos, and a KDC: required, not skipped.
	$(UV) sync --frozen --inexact --extra kerberos --group kerberos --quiet
	KOHORT_REQUIRE_PEERS=1 KOHORT_REQUIRE_KERBEROS=1 $(BIN)/pytest \
		tests/unit/aio/credentials/test_kerberos.py tests/interop/test_kerberos_on_apache_kafka.py

browser: $(SYNCED) ## The console in a real browser: required, not skipped (a Chromium from Debian, and Playwright, 165 MB).
	$(UV) sync --frozen --inexact --group browser --quiet
	KOHORT_REQUIRE_BROWSER=1 $(BIN)/pytest tests/browser -m 'not campaign' $(BY_FILE)

screenshots: $(SYNCED) ## Pictures of the console's views, of played incidents, into docs/console (needs what `make browser` needs).
	$(UV) sync --frozen --inexact --group browser --quiet
	$(BIN)/python tools/screenshots.py

campaigns: $(SYNCED) ## Tests of many minutes: kills, sweeps of seeds, the whole differential, every Spark story (hours).
	KOHORT_REQUIRE_PEERS=1 $(BIN)/pytest tests -m campaign $(BY_FILE)

fuzz: $(SYNCED) ## Fuzz every entrance: make fuzz MINUTES=5 (each), or ENTRANCE=broker-frames (docs/lab/hardening.md).
	$(BIN)/python lab/tools/fuzz/run.py --entrance $(ENTRANCE) --seed $(SEED) \
		$(if $(INPUTS),--inputs $(INPUTS),--minutes $(MINUTES)) $(if $(filter command,$(firstword $(origin JOBS))),--jobs $(JOBS))

faults: $(SYNCED) ## Network, names, tokens, clocks and processes go wrong for every face of the client; FAULT="cut silent" for some.
	$(BIN)/python lab/tools/faults/run.py $(addprefix --fault ,$(FAULT)) --seed $(SEED)

soak: $(SYNCED) ## A broker and all that works with it for an hour: does anything grow or stall? make soak MINUTES=10
	$(BIN)/python lab/tools/soak/run.py --minutes $(MINUTES)

mutants: $(SYNCED) ## Mutate coordinator, log and membership by mutmut: do unit tests notice? MODULES="kohort.log.index" for some.
	$(UV) sync --frozen --inexact --group mutants --quiet
	$(BIN)/mutmut run --max-children $(JOBS) $(MODULES:%='%.*')
	$(BIN)/mutmut results

suites: $(SYNCED) ## Run test suites of other projects on the broker; docs/lab/report-card.md has the results.
	$(BIN)/python lab/tools/suites/run.py

kafka: $(SYNCED) ## An Apache Kafka by hand, on a free port (needs Java 17 and Maven).
	$(BIN)/python tools/kafka/run.py

bench: $(SYNCED) ## Side by side with peers; results as JSON under bench/results.
	$(BIN)/python bench/run.py

# The same commit makes the same bytes: files bear its time (without git a day that is always the same), and nobody's umask.
wheel: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2> /dev/null || echo 1580601600)
wheel: | $(UV) ## Build the wheels of kohort and kohort-lab into dist/, and the bill of materials of kohort (CycloneDX).
	$(UV) build --quiet --wheel --out-dir dist
	$(UV) build --quiet --wheel --out-dir dist --package kohort-lab
	@ls dist/kohort-*.whl dist/kohort_lab-*.whl
	@$(PYTHON) tools/supply/bom.py --uv $(UV) "$$(ls -t dist/kohort-*.whl | head -1)"

audit: | $(UV) ## Ask a database of vulnerabilities about every package of the lock file; says so where none can be reached.
	@$(PYTHON) tools/supply/audit.py --uv $(UV)

docs: $(SYNCED) ## Write docs/reference and the drawing of the rooms from the code, and build the site into build/site.
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/causes.py
	$(BIN)/python tools/rooms.py
	$(BIN)/python tools/schemas.py
	$(BIN)/python tools/option_types.py
	$(BIN)/python lab/tools/generations.py
	$(BIN)/python lab/tools/campaign.py
	$(BIN)/sphinx-build -q -W -c docs . build/site
	@echo "build/site/docs/index.html"

fmt: $(SYNCED) ## Format and mend what can be mended.
	$(BIN)/ruff check --fix src lab tests bench examples tools
	$(BIN)/ruff format src lab tests bench examples tools

clean: ## Remove what was made here.
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build mutants
