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
# What PyPI and npm do not provide: it is compiled, or comes from Debian's packages.
TEST_TOOLS := $(VENV)/vault/server $(VENV)/geth/geth $(VENV)/dex/dex $(VENV)/bin/prometheus \
	$(VENV)/bin/nginx $(VENV)/bin/haproxy \
	$(VENV)/bin/pgbouncer $(VENV)/buildah tests/console/browser/node_modules/.installed

TEST_NODE := tests/node/node_modules/.installed tests/single_sign_on/node_modules/.installed

.DEFAULT_GOAL := help
.PHONY: help setup serve quick test screenshots coverage check format prove tools proofs parallel-proofs single-proofs attack explore faults mutate paid bench docs site client types release sbom lock clean

help: ## Show what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(VENV)/.dev ## Create .venv from the lock files and install the project with its command

serve: $(VENV)/.runtime ## Serve on http://127.0.0.1:8080 (ARGS="--port 9000" to change)
	@$(BIN)/relaydeck serve $(ARGS)

quick: $(VENV)/.dev ## Run the tests that start no process (about a minute)
	@$(BIN)/python -m pytest -n $(shell nproc) -m quick $(ARGS)

test: $(VENV)/.dev $(TEST_NODE) ## Run the tests, the quick ones too, with what PyPI and npm provide (minutes)
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) $(ARGS)

coverage: $(VENV)/.dev $(TEST_NODE) $(TEST_TOOLS) ## Measure which branches the tests reach, in every process; at least 97 % (twenty minutes)
	@rm -rf .coverage && mkdir .coverage
	@$(BIN)/python -m coverage run -m pytest -n $(TEST_PROCESSES) -m 'not prove' $(ARGS) || echo 'measuring slows the tests down: make test decides about failures' >&2
	@$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report

check: $(VENV)/.dev clients/typescript/node_modules/.installed tests/console/lint/node_modules/.installed ## Check format, lint, types (source, tests, bench, scripts) and the layers
	@PATH="$(CURDIR)/$(BIN):$$PATH" clients/typescript/node_modules/.bin/tsc -p tests/console/jsconfig.json
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/console/lint/node_modules/.bin/eslint --max-warnings 0 -c tests/console/lint/eslint.config.mjs src/relaydeck/console/static
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/python -m pytest -n 0 tests/test_layers.py

format: $(VENV)/.dev ## Format the code and fix what the linter can fix
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

prove: tools proofs ## Run the tests with Vault, geth, Chromium, Prometheus, nginx; then slow proofs: kills, faults, full disks (PROOFS=short: fewer rounds, as in CI)

# Status 5: no test of this kind is among those that ARGS chooses.
PROVEN_WITH := $(VENV)/.dev $(TEST_NODE) clients/typescript/node_modules/.installed $(TEST_TOOLS) $(VENV)/generators/.installed
tools: $(PROVEN_WITH)
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m tools $(ARGS) || test $$? = 5

proofs: parallel-proofs single-proofs

# Many of them wait most of the time. More processes would make those late that compute.
parallel-proofs: $(PROVEN_WITH)
	@$(BIN)/python -m pytest -n $(shell echo $$((3 * $$(nproc) / 2))) --dist loadfile --durations 20 -m 'prove and parallel' $(ARGS) || test $$? = 5

single-proofs: $(PROVEN_WITH)
	@$(BIN)/python -m pytest --durations 20 -m 'prove and not parallel' $(ARGS) || test $$? = 5

attack: $(VENV)/.dev $(TEST_NODE) $(TEST_TOOLS) ## Attack the service as strangers, callers, nodes, files and browsers would (ARGS=--short: a part)
	@$(BIN)/python -m tests.proofs.attack $(ARGS)

explore: $(VENV)/.dev ## Fail each call of each operation in turn (ARGS="--hours 1" goes on with random faults and the model)
	@$(BIN)/python -m tests.proofs.explore $(ARGS)

faults: $(VENV)/.dev $(VENV)/bin/prometheus $(VENV)/bin/haproxy $(VENV)/bin/pgbouncer ## Cause the faults that operators meet, under load (ARGS=--write writes the table in docs/reliability.md)
	@$(BIN)/python -m tests.proofs.faults $(ARGS)

mutate: $(VENV)/.dev ## Change the code in small ways and see which changes no test notices; writes docs/mutation.md (ARGS="relaydeck.fees.exact*")
	@nice $(BIN)/mutmut run $(ARGS); $(BIN)/mutmut results; $(BIN)/python -m tests.support.mutation_page $(ARGS)

paid: $(VENV)/.dev $(VENV)/geth/geth tests/node/node_modules/.installed ## Compare estimates with what is paid on real nodes; writes docs/fee-estimate.md
	@$(BIN)/python -m tests.proofs.paid && $(BIN)/python -m pages

bench: $(VENV)/.dev $(VENV)/geth/geth tests/node/node_modules/.installed ## Measure rates, latencies and ratios; writes docs/benchmarks.* and README's figures
	@$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.dev ## Write the generated pages
	@$(BIN)/python -m pages
	@$(BIN)/python -c 'from tests.proofs.attack import PAGE, page; PAGE.write_text(page(), "utf-8")'

site: $(VENV)/.site ## Build the documentation as a site in build/site, with its search; nothing in it is loaded from elsewhere
	@$(PYTHON) -m pages.site
	@$(VENV)/site/bin/python -m properdocs build --strict

screenshots: $(VENV)/.dev tests/console/browser/node_modules/.installed ## Take the pictures of the console for docs/console.md and the README
	@$(BIN)/python -m tests.console.browser.screenshots

client: $(VENV)/.runtime ## Build the wheel of the Python client alone in dist/
	@$(PIP) wheel --no-deps --no-index --no-build-isolation --wheel-dir dist ./clients/python && ls dist/relaydeck_client-*.whl

types: $(VENV)/.runtime clients/typescript/node_modules/.installed ## Build the TypeScript client in clients/typescript/dist
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m clients.typescript.make_types

# What is tried of a release, each artifact where nothing else of Relaydeck is. Without an image: all but that.
WITH_IMAGE := $(if $(findstring --without-image,$(ARGS)),,yes)
TRIED := tests/release/test_artifacts.py tests/release/test_pythons.py tests/client/test_typescript.py
release: $(VENV)/.dev clients/typescript/node_modules/.installed $(if $(WITH_IMAGE),$(VENV)/buildah) ## Test and check everything, build in dist/ what a release publishes, and try it (ARGS="--without-image"; CHECKED=yes: build and try only)
	@test "$(CHECKED)" = yes || { $(MAKE) test check prove ARGS=; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m release $(ARGS)
	@RELEASED="$(CURDIR)/dist" $(BIN)/python -m pytest -n 0 -m prove $(TRIED) $(if $(WITH_IMAGE),tests/deploy/test_image.py)

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
	@$(LOCK) --extra site -c requirements.lock -c requirements-dev.lock -o requirements-site.lock
	@$(LOCK) --extra tools -c requirements.lock -o requirements-tools.lock

clean: ## Remove what set-up made; the home with its data stays
	@rm -rf $(VENV) tests/node/node_modules tests/single_sign_on/node_modules tests/console/browser/node_modules tests/console/lint/node_modules clients/typescript/node_modules tests/proofs/generators/node_modules

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

$(VENV)/.site: requirements-site.lock
	@echo "setting up the generator of the site …" >&2
	@$(PYTHON) -m venv $(VENV)/site
	@$(VENV)/site/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-site.lock
	@touch $@

tests/node/node_modules/.installed: tests/node/package-lock.json
	@echo "setting up the test node …" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install
	@touch $@

tests/single_sign_on/node_modules/.installed: tests/single_sign_on/package-lock.json
	@echo "setting up the test identity provider …" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/node/install tests/single_sign_on
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

$(VENV)/dex/dex: tests/dex/go.sum | $(VENV)/.dev
	@echo "building the test identity provider Dex (once; some minutes) …" >&2
	@sh tests/dex/install $@
	@touch $@

$(VENV)/generators/.installed: $(wildcard tests/proofs/generators/*.lock tests/proofs/generators/*.json tests/proofs/generators/pom.xml) | $(VENV)/.dev
	@echo "setting up generators of clients …" >&2
	@sh tests/proofs/generators/install $(VENV)/generators
	@touch $@

$(VENV)/bin/prometheus: | $(VENV)/.dev
	@echo "setting up Prometheus …" >&2
	@sh tests/unpack_debian $(VENV)/bin prometheus prometheus promtool

$(VENV)/bin/nginx: | $(VENV)/.dev
	@echo "setting up nginx …" >&2
	@sh tests/unpack_debian $(VENV)/bin nginx nginx

$(VENV)/bin/haproxy: | $(VENV)/.dev
	@echo "setting up HAProxy …" >&2
	@sh tests/unpack_debian $(VENV)/bin haproxy haproxy

$(VENV)/bin/pgbouncer: | $(VENV)/.dev
	@echo "setting up PgBouncer …" >&2
	@sh tests/unpack_debian $(VENV)/bin pgbouncer pgbouncer

$(VENV)/buildah: | $(VENV)/.dev
	@sh tests/deploy/install_buildah
	@touch $@
