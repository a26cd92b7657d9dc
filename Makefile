# `make serve` and `make test` need nothing done before: they set up what they use, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Python keeps the modules it has compiled: otherwise every start of the service, in every test, compiles them again.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for servers and for time limits: with two processes for each core it would be idle a third of the time. On
# two cores, eight processes took 4 m 56 s and six took 5 m 41 s.
TEST_PROCESSES := $(shell echo $$((4 * $$(nproc))))
TEST_TOOLS := tests/node/node_modules/.installed clients/typescript/node_modules/.installed \
	tests/console/browser/node_modules/.installed $(VENV)/vault/server $(VENV)/geth/geth $(VENV)/bin/prometheus

.DEFAULT_GOAL := help
.PHONY: help setup serve test screenshots coverage check format prove attack explore mutate paid bench docs types sbom lock clean

help: ## Show what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(VENV)/.dev ## Create .venv from the lock files and install the project with its command

serve: $(VENV)/.runtime ## Serve on http://127.0.0.1:8080 (ARGS="--port 9000" to change)
	@$(BIN)/relaydeck serve $(ARGS)

test: $(VENV)/.dev $(TEST_TOOLS) ## Run the tests
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) $(ARGS)

coverage: $(VENV)/.dev $(TEST_TOOLS) ## Measure which branches the tests reach, in every process; at least 97 % (twenty minutes)
	@rm -rf .coverage && mkdir .coverage
	@$(BIN)/python -m coverage run -m pytest -n $(TEST_PROCESSES) $(ARGS) || echo 'measuring slows the tests down: make test decides about failures' >&2
	@$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report

check: $(VENV)/.dev clients/typescript/node_modules/.installed tests/console/lint/node_modules/.installed ## Check format, lint, types (source, tests, bench, scripts) and the layers
	@PATH="$(CURDIR)/$(BIN):$$PATH" clients/typescript/node_modules/.bin/tsc -p tests/console/jsconfig.json
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/console/lint/node_modules/.bin/eslint --max-warnings 0 -c tests/console/lint/eslint.config.mjs src/relaydeck/console/static
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/python -m pytest -n 0 tests/test_layers.py

format: $(VENV)/.dev ## Format the code and fix what the linter can fix
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

prove: $(VENV)/.dev $(TEST_TOOLS) $(VENV)/bin/nginx ## Run the slow proofs: kills, faults, full disks
	@$(BIN)/python -m pytest -m prove $(ARGS)

attack: $(VENV)/.dev $(TEST_TOOLS) ## Attack the service as strangers, callers, nodes, files and browsers would (ARGS=--short: a part)
	@$(BIN)/python -m tests.attack $(ARGS)

explore: $(VENV)/.dev ## Fail each call of each operation in turn (ARGS="--hours 1" goes on with random faults and the model)
	@$(BIN)/python -m tests.explore $(ARGS)

mutate: $(VENV)/.dev ## Change the code in small ways and see which changes no test notices; writes docs/mutation.md (ARGS="relaydeck.fees.exact*")
	@nice $(BIN)/mutmut run $(ARGS); $(BIN)/mutmut results; $(BIN)/python -m tests.mutation_page $(ARGS)

paid: $(VENV)/.dev $(VENV)/geth/geth tests/node/node_modules/.installed ## Compare estimates with what is paid on real nodes; writes docs/fee-estimate.md
	@$(BIN)/python -m tests.fees.paid

bench: $(VENV)/.dev $(VENV)/geth/geth tests/node/node_modules/.installed ## Measure rates, latencies and ratios; writes docs/benchmarks.* and README's figures
	@$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.dev ## Write the generated pages
	@$(BIN)/python -c 'from relaydeck.settings_page import settings_page; print(settings_page(), end="")' > docs/settings.md
	@mkdir -p docs/reference
	@$(BIN)/python -c 'from relaydeck.cli.reference import cli_page; print(cli_page(), end="")' > docs/reference/cli.md
	@$(BIN)/python -c 'from relaydeck.cli.json_reference import json_page; print(json_page(), end="")' > docs/reference/json.md
	@$(BIN)/python -c 'from relaydeck.http.metrics_page import metrics_page; print(metrics_page(), end="")' > docs/reference/metrics.md
	@$(BIN)/python -m pages
	@$(BIN)/python -c 'from tests.attack import PAGE, page; PAGE.write_text(page(), "utf-8")'

screenshots: $(VENV)/.dev tests/console/browser/node_modules/.installed ## Take the pictures of the console for docs/console.md and the README
	@$(BIN)/python -m tests.console.browser.screenshots

types: $(VENV)/.dev clients/typescript/node_modules/.installed ## Write TypeScript types of the API to clients/typescript, and check them
	@$(BIN)/python clients/typescript/make_types.py

sbom: $(VENV)/.tools $(VENV)/.runtime ## Write sbom.cdx.json: what a deployment contains, with versions and licences (CycloneDX)
	@rm -rf $(VENV)/sbom && $(PYTHON) -m venv --without-pip $(VENV)/sbom
	@$(PIP) --python $(VENV)/sbom/bin/python install --require-hashes -r requirements.lock
	@$(PIP) --python $(VENV)/sbom/bin/python install --no-deps --no-index --no-build-isolation .
	@$(PIP) --python $(VENV)/sbom/bin/python uninstall --yes flit_core
	@$(VENV)/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible -o sbom.cdx.json $(VENV)/sbom/bin/python

LOCK := $(VENV)/tools/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url pyproject.toml
lock: $(VENV)/.tools ## Pin every dependency anew (the only target that looks for newer versions)
	@$(LOCK) --extra build -o requirements.lock
	@$(LOCK) --extra build --extra dev -c requirements.lock -o requirements-dev.lock
	@$(LOCK) --extra build --extra aws --extra otel -c requirements.lock -c requirements-dev.lock -o requirements-extras.lock
	@$(LOCK) --extra tools -c requirements.lock -o requirements-tools.lock

clean: ## Remove what set-up made; the home with its data stays
	@rm -rf $(VENV) tests/node/node_modules tests/console/browser/node_modules tests/console/lint/node_modules clients/typescript/node_modules

$(VENV)/.runtime: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Relaydeck needs Python 3.11 or newer; say which with: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "setting up $(VENV) …" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-index --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.tools: requirements-tools.lock
	@$(PYTHON) -m venv $(VENV)/tools
	@$(VENV)/tools/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-tools.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "setting up the test tools …" >&2
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

tests/node/node_modules/.installed: tests/node/package-lock.json
	@echo "setting up the test node …" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install
	@touch $@

tests/console/browser/node_modules/.installed: tests/console/browser/package-lock.json
	@sh tests/console/browser/install
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install tests/console/browser
	@touch $@

tests/console/lint/node_modules/.installed: tests/console/lint/package-lock.json
	@echo "setting up the linter of the console's scripts …" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install tests/console/lint
	@touch $@

clients/typescript/node_modules/.installed: clients/typescript/package-lock.json
	@echo "setting up the TypeScript tools …" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install clients/typescript
	@touch $@

$(VENV)/vault/server: tests/vault/go.sum tests/vault/main.go | $(VENV)/.dev
	@echo "building the test Vault (once; some minutes) …" >&2
	@sh tests/vault/install $@
	@touch $@

$(VENV)/geth/geth: tests/geth/go.sum | $(VENV)/.dev
	@echo "building the test node geth (once; some minutes) …" >&2
	@sh tests/geth/install $@
	@touch $@

$(VENV)/bin/prometheus: | $(VENV)/.dev
	@echo "setting up Prometheus …" >&2
	@sh tests/unpack_debian $(VENV)/bin prometheus prometheus promtool

$(VENV)/bin/nginx: | $(VENV)/.dev
	@echo "setting up nginx …" >&2
	@sh tests/unpack_debian $(VENV)/bin nginx nginx
