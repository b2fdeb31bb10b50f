# Commands for users. Each installs its requirements, prints its steps, and does nothing if it is up to date.
#   make demo     set up, then capture on a testbed of network namespaces and create figures and report.html
#   make test     set up, then C++ and Python tests
#   make reproduce DATA=DIRECTORY   set up, then recreate the tables and figures of a release and compare them
# Others: setup setup-fabric setup-storage programs dpdk-source docs site lint format bench fuzz soak dist lock sbom clean help

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

PYTHON ?= python3
CORES ?= $(shell nproc)
FUZZ_SECONDS ?= 600
TEST_ARGS ?=
TEST_JOBS ?= 4
# `make test` skips the long tests, except in this share of the test files; `make soak` runs all of them.
SOAK_SHARE ?= 0
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
NATIVE := workflow/native
CXX_TEST_BUILD := build/native-tests
NATIVE_SOURCES := $(shell find $(NATIVE)/src $(NATIVE)/tests $(NATIVE)/bench -name '*.[ch]pp' 2> /dev/null)
NATIVE_BUILD_FILES := $(wildcard $(NATIVE)/CMakeLists.txt $(NATIVE)/*/CMakeLists.txt $(NATIVE)/cmake/* $(NATIVE)/*.py) \
	$(NATIVE)/pyproject.toml $(wildcard schemas/*.tsv)

# ---- set-up -------------------------------------------------------------------------------------------------------

# Copied to FABRIC's nodes. `make setup` rebuilds existing ones, because they must contain the code of the core, and
# removes those that cannot be built: a collection would otherwise use the code of an earlier version.
NODE_PROGRAMS := $(addprefix $(BIN)/,acapella-anonymize acapella-digest acapella-dpdk-replay-static)

.PHONY: setup packages packages-test packages-lint packages-bench
setup: packages $(PYTHON_PACKAGES) $(STAMPS)/native $(STAMPS)/analysis $(STAMPS)/capture $(BIN)/acapella-dpdk-capture \
		$(BIN)/acapella-dpdk-generate $(BIN)/acapella-dpdk-replay $(BIN)/acapella-link $(BIN)/acapella-monitor \
		$(BIN)/acapella-p4-run $(wildcard $(NODE_PROGRAMS))
	@$(if $(filter no,$(PACKAGES)),rm -rf $(TOOLS))
	@version=$$($(BIN)/python -c 'import acapella; print(acapella.__version__)'); \
		echo "setup: done; the command is $(BIN)/acapella, version $$version"

# Without root privileges, for example on a Jupyter server, skip Debian packages: make setup PACKAGES=no
PACKAGES ?= yes
DEBIAN_PACKAGES := $(if $(filter no,$(PACKAGES)),true,workflow/setup/debian-packages)

# PACKAGES=no also saves disk space and memory: fewer Python packages, build tools that are removed after the build, no
# pip cache, bytecode only of modules that are used, and as many compilers as the memory allows. The machine's FABRIC
# client is used if its version matches the lock file.
ifeq ($(PACKAGES),no)
REQUIREMENTS := workflow/requirements-small.lock
PYTHON_PACKAGES := $(STAMPS)/packages-small
TOOLS := build/tools
BUILD_TOOLS := workflow/setup/build-tools $(BIN)/python $(TOOLS)
PRUNE := workflow/setup/prune $(VENV)/lib/python*/site-packages
NO_BYTECODE := --no-compile
CLIENT_OF_MACHINE := $(BIN)/python workflow/setup/hub_client.py
CORES = $(shell workflow/setup/compile-jobs)
CORE_JOBS = CMAKE_BUILD_PARALLEL_LEVEL=$(CORES)
LTO_JOBS = $(CORES)
export PIP_NO_CACHE_DIR := 1
export PYTHONDONTWRITEBYTECODE := 1
else
REQUIREMENTS := workflow/requirements.lock
PYTHON_PACKAGES := $(STAMPS)/packages
TOOLS := $(VENV)
BUILD_TOOLS := true
PRUNE := true
NO_BYTECODE :=
LTO_JOBS := auto
CLIENT_OF_MACHINE := false
endif

packages packages-test packages-lint packages-bench: | ours

# pip reports directories of a different user with long messages; report them in one line instead.
.PHONY: ours
ours:
	@for place in . $(wildcard $(VENV)); do \
		test -w $$place || { echo "setup: $(CURDIR)/$$place belongs to $$(stat -c %U $$place); clone the project for" \
			"yourself" >&2; exit 1; }; \
	done

packages:
	@$(DEBIAN_PACKAGES) run

packages-test:
	@$(DEBIAN_PACKAGES) run test

packages-lint:
	@$(DEBIAN_PACKAGES) run test lint

packages-bench:
	@workflow/setup/debian-packages run bench

$(BIN)/python: | packages
	@echo "setup: virtual environment in $(VENV), of $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("setup: Python 3.11 or later is needed, " \
		"$(PYTHON) is %d.%d; select another: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)

$(PYTHON_PACKAGES): $(REQUIREMENTS) | $(BIN)/python
	@echo "setup: Python packages at the versions and hashes of $<; this takes a few minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NO_BYTECODE) --require-hashes -r $<
	@$(PRUNE)
	@mkdir -p $(@D) && touch $@

# Tests and linters: `make setup` does not install them.
$(STAMPS)/dev: workflow/requirements-dev.lock workflow/tests/support/pyproject.toml $(PYTHON_PACKAGES)
	@echo "setup: tests and linters at the versions and hashes of $<"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(PIP_EDITABLE) --quiet -e workflow/tests/support
	@touch $@

PIP_EDITABLE = $(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation

# Sources of zstd, used if its headers are not installed.
ZSTD_SOURCE = workflow/setup/zstd-source $(BIN)/python build/zstd-source || \
	echo "setup: the sources of zstd cannot be downloaded; the core is built without zstd"
# Rebuild the core if a library was missing, because it may have been installed meanwhile.
CORE_LEFT_OUT = $(wildcard build/native/*/missing-libraries)

# The native build finds cmake, ninja and nanobind in the virtual environment. pip prints the output of ninja only with
# --verbose.
$(STAMPS)/native: $(NATIVE_SOURCES) $(NATIVE_BUILD_FILES) workflow/requirements-sources.lock $(PYTHON_PACKAGES) \
		$(if $(CORE_LEFT_OUT),configure-again)
	@$(ZSTD_SOURCE)
	@$(BUILD_TOOLS)
	@echo "setup: native core (C++20), built and installed from $(NATIVE); this takes minutes the first time"
	@PATH="$(CURDIR)/$(TOOLS)/bin:$(CURDIR)/$(BIN):$$PATH" $(CORE_JOBS) workflow/setup/with-progress build/native.log $(PIP_EDITABLE) --verbose -e $(NATIVE)
	@touch $@

$(STAMPS)/analysis: workflow/pyproject.toml $(PYTHON_PACKAGES)
	@echo "setup: package acapella, from workflow"
	@$(PIP_EDITABLE) --quiet -e workflow
	@touch $@

$(STAMPS)/capture: capture/pyproject.toml $(PYTHON_PACKAGES)
	@echo "setup: package acapella-capture, from capture"
	@$(PIP_EDITABLE) --quiet -e capture
	@touch $@

-include workflow/setup/hardening.mk
# The C programs, built by meson. SANITIZE=1: with ASan and UBSan, in another PROGRAMS=DIRECTORY. programs-test: their C
# tests, or only PROGRAM_TESTS.
# A program whose libraries are missing is skipped, which affects nothing else; a later `make setup` builds it.
PROGRAMS ?= build/programs
C_PROGRAMS := capture/dpdk/acapella-dpdk-capture capture/generate/acapella-dpdk-generate capture/link/acapella-link \
	capture/monitor/acapella-monitor capture/replay/acapella-dpdk-replay p4/loader/acapella-p4-run
NEEDED_acapella-dpdk-capture := libdpdk liburing libpcap zlib
NEEDED_acapella-dpdk-generate := libdpdk libpcap zlib
NEEDED_acapella-dpdk-replay := libdpdk libpcap zlib
NEEDED_acapella-monitor := libdpdk libpcap zlib
NEEDED_acapella-p4-run := libdpdk libpcap zlib
C_SOURCES := $(shell find capture/common capture/dpdk capture/generate capture/link capture/monitor capture/replay p4/loader -name '*.[ch]' -o -name meson.build 2> /dev/null) \
	meson.build workflow/setup/hardening.mk $(NATIVE)/src/frame/plausible_time.hpp capture/pyproject.toml workflow/pyproject.toml
MESON := PATH="$(CURDIR)/$(TOOLS)/bin:$(CURDIR)/$(BIN):$$PATH" meson
, := ,
MESON_OPTIONS = -Dc_args='$(strip $(HARDENED) $(if $(SANITIZE),-fno-sanitize-recover=all))' \
	-Dc_link_args='$(HARDENED_LINK)' $(if $(SANITIZE),-Db_sanitize=address$(,)undefined -Doptimization=1)

# Reconfigure if a program was skipped, because its libraries may have been installed meanwhile.
C_LEFT_OUT = $(filter-out $(wildcard $(C_PROGRAMS:%=$(PROGRAMS)/%)),$(C_PROGRAMS:%=$(PROGRAMS)/%))
.PHONY: programs programs-test configure-again
$(PROGRAMS)/build.ninja: workflow/setup/hardening.mk $(if $(C_LEFT_OUT),configure-again)
	@mkdir -p $(@D)
	@$(MESON) setup $(if $(wildcard $@),--reconfigure) $(@D) . $(MESON_OPTIONS) > $(@D).log 2>&1 || { cat $(@D).log; exit 1; }
	@touch $@

programs: $(PROGRAMS)/build.ninja
	@$(MESON) compile -C $(PROGRAMS) -j $(CORES) > $(PROGRAMS).log 2>&1 || { cat $(PROGRAMS).log; exit 1; }
	@$(foreach program,$(filter-out acapella-link,$(notdir $(C_PROGRAMS))),\
	missing=$$(pkg-config --print-errors --errors-to-stdout --exists $(NEEDED_$(program)) 2>&1) || \
		echo "setup: $(program) is not built: $$(tail -n 1 <<< "$$missing")";)

programs-test: programs
	@$(MESON) test -C $(PROGRAMS) --verbose $(PROGRAM_TESTS)

C_INSTALLED := $(addprefix $(BIN)/,$(notdir $(C_PROGRAMS)))
$(C_INSTALLED) &: $(C_SOURCES) | $(PYTHON_PACKAGES)
	@echo "setup: $(notdir $(C_PROGRAMS)) (C, DPDK), from capture/dpdk, capture/generate, capture/link, capture/monitor, capture/replay and p4/loader"
	@$(BUILD_TOOLS)
	@$(MAKE) -s programs
	@for program in $(C_PROGRAMS:%=$(PROGRAMS)/%); do [ ! -e $$program ] || install $$program $(BIN)/; done

# The requirements of testbed fabric are large and useful only on FABRIC: `make test` installs them, `make setup` does
# not.
.PHONY: setup-fabric
setup-fabric: setup $(STAMPS)/fabric $(NODE_PROGRAMS)

# The machine's client is checked each time, because a JupyterHub may get a new image.
$(STAMPS)/fabric: capture/requirements-fabric.lock $(PYTHON_PACKAGES) workflow/setup/hub_client.py \
		$(if $(wildcard $(VENV)/lib/python*/site-packages/acapella-fabric-client.pth),client-again)
	@$(CLIENT_OF_MACHINE) $< || { \
		echo "setup: FABRIC's client at the versions and hashes of $<; this takes a minute or two the first time"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NO_BYTECODE) --require-hashes -r $< && $(PRUNE); }
	@touch $@

.PHONY: client-again setup-storage
# Captures in storage need Snakemake's plugins and botocore (35 MB), which setup does not install.
setup-storage: setup $(STAMPS)/storage

$(STAMPS)/storage: workflow/requirements-storage.lock $(PYTHON_PACKAGES)
	@echo "setup: Snakemake's storage plugins fs and s3 at the versions and hashes of $<"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(NO_BYTECODE) --require-hashes -r $< && $(PRUNE)
	@touch $@

# Copied to FABRIC nodes, and therefore linked statically. The static libraries are in Debian's -dev packages.
NODE_PROGRAM = $(CXX) -std=c++20 -O2 -flto=$(LTO_JOBS) $(HARDENED) $(HARDENED_LINK) -static-pie -s -I$(NATIVE)/src -I$${core%/*}/generated
$(BIN)/acapella-anonymize: $(NATIVE)/programs/anonymize.cpp $(NATIVE)/programs/program.hpp $(STAMPS)/native
	@rm -f $@
	@core=$$(ls -t build/native/*/libcore.a | head -n 1); \
	if $(NODE_PROGRAM) $< $$core -lcrypto -lzstd -llz4 -lz \
			-o $@ 2> build/anonymize.log; then \
		echo "setup: acapella-anonymize, for captures to be anonymized on FABRIC's nodes"; \
	else \
		echo "setup: acapella-anonymize is not built, so nothing can be anonymized on FABRIC's nodes: build/anonymize.log"; \
	fi

# acapella-digest reads captures that were just recorded, which are not compressed. A decoder.cpp without codecs
# replaces the core's, so that the program needs no library and can be built without Debian's packages.
$(BIN)/acapella-digest: $(NATIVE)/programs/digest.cpp $(NATIVE)/programs/program.hpp $(STAMPS)/native
	@rm -f $@
	@core=$$(ls -t build/native/*/libcore.a | head -n 1); \
	if $(NODE_PROGRAM) $< $(NATIVE)/src/input/decoder.cpp $$core -o $@ 2> build/digest.log; then \
		echo "setup: acapella-digest, for captures to be digested on FABRIC's nodes"; \
	else \
		echo "setup: acapella-digest is not built, so nothing can be digested on FABRIC's nodes: build/digest.log"; \
	fi

# Linked statically like acapella-anonymize, with the libraries of the other C programs.
$(BIN)/acapella-dpdk-replay-static: $(C_SOURCES) | $(C_INSTALLED)
	@rm -f $@
	@if $(MESON) compile -C $(PROGRAMS) acapella-dpdk-replay-static > build/replay-static.log 2>&1; then \
		install -s $(PROGRAMS)/capture/replay/acapella-dpdk-replay-static $@; \
		echo "setup: acapella-dpdk-replay-static, for captures to be replayed from FABRIC's nodes"; \
	else \
		echo "setup: acapella-dpdk-replay-static is not built, so nothing can be replayed from FABRIC's nodes: build/replay-static.log"; \
	fi

# ---- the two commands ---------------------------------------------------------------------------------------------

.PHONY: demo test
demo: setup
	@echo "demo: local testbed, real traffic, mirrored ports; then the whole workflow (config/demo.yaml)"
	@$(BIN)/snakemake --cores $(CORES) --configfile config/demo.yaml
	@echo
	@echo "demo: created results/demo"
	@find results/demo/tables -name '*.csv' -printf 'demo: table    %p (and .parquet)\n' | sort
	@find results/demo/figures -name '*.svg' -printf 'demo: figure   %p (and .pdf, .png, .html)\n' | sort
	@find results/demo -maxdepth 1 -name '*.html' -printf 'demo: report   %p\n'

# RECORD=yes adds the tables and figures to the release; otherwise, they are compared with the release.
.PHONY: reproduce
DATA ?=
RECORD ?=
NAME ?= reproduced
REPRODUCE_TARGET = $(if $(filter yes,$(RECORD)),record,reproduce)
reproduce:
	@[ -n '$(DATA)' ] || { echo "reproduce: specify a release: make reproduce DATA=DIRECTORY" >&2; exit 2; }
	@[ -f '$(DATA)/SHA256SUMS' ] || { echo "reproduce: $(DATA): not a release (no SHA256SUMS); correct DATA" >&2; exit 2; }
	@$(MAKE) setup
	@rm -f 'results/$(NAME)/reproduced.txt'
	@status=0; $(BIN)/snakemake --cores $(CORES) $(REPRODUCE_TARGET) --forcerun $(REPRODUCE_TARGET) \
		--config reproduce='$(DATA)' campaign='$(NAME)' || status=$$?; \
	echo; if [ -e 'results/$(NAME)/reproduced.txt' ]; then cat 'results/$(NAME)/reproduced.txt'; fi; exit $$status

# Some container images set this variable; each of the many test processes would then recompile our modules.
CACHED_BYTECODE := PYTHONDONTWRITEBYTECODE=

test: packages-test setup $(STAMPS)/dev $(STAMPS)/site setup-fabric $(CXX_TEST_BUILD)/built
	@echo "test: C++ tests"
	@ctest --test-dir $(CXX_TEST_BUILD) --output-on-failure -j 2
	@$(MAKE) dpdk-source || echo "test: compiled P4 programs are not tested without DPDK's source"
	@echo "test: Python tests"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(CACHED_BYTECODE) ACAPELLA_SOAK_SHARE=$(SOAK_SHARE) $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder \
		--junitxml=build/pytest.xml $(TEST_ARGS)
	@echo "test: created $(VENV), $(CXX_TEST_BUILD) and build/pytest.xml (each test and its time)"

# make fuzz COVERAGE=yes: print the code coverage of seeds and stored inputs
COVERAGE ?=
FUZZ_BUILD := $(if $(COVERAGE),build/native-coverage,$(CXX_TEST_BUILD))
$(sort $(CXX_TEST_BUILD)/build.ninja $(FUZZ_BUILD)/build.ninja): $(NATIVE_BUILD_FILES) $(PYTHON_PACKAGES) | packages-test
	@cmake -S $(NATIVE) -B $(@D) -G Ninja -DACAPELLA_COVERAGE=$(if $(findstring coverage,$(@D)),ON,OFF) -DCMAKE_CXX_COMPILER=clang++-14 -DACAPELLA_BINDINGS=OFF \
		-DACAPELLA_TESTS=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python > /dev/null

$(CXX_TEST_BUILD)/built: $(NATIVE_SOURCES) $(CXX_TEST_BUILD)/build.ninja
	@echo "test: building the C++ tests in $(CXX_TEST_BUILD)"
	@cmake --build $(CXX_TEST_BUILD)
	@touch $@

# Two headers for compiling P4 programs (docs/p4.md). Not part of setup, because the download is 15 MB.
.PHONY: dpdk-source
dpdk-source:
	@workflow/setup/dpdk-source build/dpdk-source

# ---- quality ------------------------------------------------------------------------------------------------------

.PHONY: lint format fuzz soak bench
lint: packages-lint setup $(STAMPS)/dev $(STAMPS)/site $(CXX_TEST_BUILD)/built
	@PATH="$(CURDIR)/$(BIN):$$PATH" workflow/setup/lint $(CXX_TEST_BUILD)

format: packages-lint setup $(STAMPS)/dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules
	$(BIN)/sqlfluff fix --quiet workflow/sql
	find $(NATIVE)/src $(NATIVE)/tests $(NATIVE)/fuzz -name '*.[ch]pp' -exec clang-format-14 -i {} +
	git ls-files --cached --others --exclude-standard '*.[ch]' | xargs clang-format-14 -i

fuzz: packages-test setup $(STAMPS)/dev $(FUZZ_BUILD)/build.ninja
	@echo "fuzz: $(if $(COVERAGE),code reached by seeds and stored inputs,every target for $(if $(FUZZ_RUNS),$(FUZZ_RUNS) inputs,$(FUZZ_SECONDS) s)$(,) all in parallel)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" COVERAGE=$(COVERAGE) $(NATIVE)/fuzz/run.sh $(FUZZ_BUILD) $(FUZZ_SECONDS)

# Long tests: `make test` skips them, and .ci/run runs a part of them. The seed differs between versions of the code.
soak: export ACAPELLA_SOAK_SEED ?= $(shell git rev-parse 'HEAD^{tree}')
soak: packages-test setup-fabric $(STAMPS)/dev $(STAMPS)/site $(CXX_TEST_BUILD)/built fuzz
	@$(MAKE) dpdk-source || echo "soak: compiled P4 programs are not tested without DPDK's source"
	@echo "soak: long tests, and more inputs than in make test; ACAPELLA_SOAK_SEED=$$ACAPELLA_SOAK_SEED"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(CACHED_BYTECODE) ACAPELLA_SOAK=1 $(BIN)/python -m pytest -o timeout=3600 \
		-n $(TEST_JOBS) --dist worksteal --junitxml=build/soak.xml $(TEST_ARGS)

bench: packages-bench setup $(STAMPS)/dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=workflow/bench $(BIN)/python -m acapella_bench $(BENCH_ARGS)

# nfstream, a flow meter that `make bench BENCH_ARGS=comparators` also measures if this environment exists.
build/nfstream: workflow/requirements-bench.lock
	@$(PYTHON) -m venv $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# ---- documentation -------------------------------------------------------------------------------------------------

.PHONY: docs site
docs: setup
	@$(BIN)/python workflow/setup/reference.py
	@echo "docs: updated docs/commands.md, docs/configuration.md and docs/tables.md"

$(STAMPS)/site: workflow/requirements-docs.lock $(PYTHON_PACKAGES)
	@echo "setup: MkDocs at the versions and hashes of $<"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

site: packages $(STAMPS)/site
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python workflow/setup/site/build.py

# ---- housekeeping -------------------------------------------------------------------------------------------------

.PHONY: dist lock sbom clean help
UV_COMPILE = build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header
# uv resolves versions for all platforms at once. Only this target needs uv, so uv has a separate environment.
lock: packages
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(UV_COMPILE) workflow/requirements.in -o workflow/requirements.lock
	@$(UV_COMPILE) -c workflow/requirements.lock workflow/requirements-small.in -o workflow/requirements-small.lock
	@$(UV_COMPILE) -c workflow/requirements.lock workflow/requirements-build.in -o workflow/requirements-build.lock
	@$(UV_COMPILE) -c workflow/requirements.lock workflow/requirements-dev.in -o workflow/requirements-dev.lock
	@$(UV_COMPILE) -c workflow/requirements.lock -c workflow/requirements-dev.lock workflow/requirements-storage.in \
		-o workflow/requirements-storage.lock
	@$(UV_COMPILE) -c workflow/requirements.lock -c workflow/requirements-dev.lock capture/requirements-fabric.in \
		-o capture/requirements-fabric.lock
	@$(UV_COMPILE) -c workflow/requirements-dev.lock workflow/requirements-sources.in \
		-o workflow/requirements-sources.lock
	@$(UV_COMPILE) -c workflow/requirements.lock -c workflow/requirements-dev.lock workflow/requirements-docs.in \
		-o workflow/requirements-docs.lock
	@$(UV_COMPILE) workflow/requirements-bench.in -o workflow/requirements-bench.lock
	@echo "lock: updated workflow/requirements.lock and those for small, build, dev, storage, docs, fabric, sources and bench"

# Reproducible wheels: the files in them have the date of the last commit, or 1980 without git.
SOURCE_DATE = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2> /dev/null || echo 315532800))
dist: $(PYTHON_PACKAGES)
	@rm -rf build/dist workflow/build capture/build
	@$(ZSTD_SOURCE)
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE) PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps \
		--no-build-isolation --no-index --disable-pip-version-check -w build/dist ./$(NATIVE) ./workflow ./capture
	@echo "dist: created build/dist"

# CycloneDX (ECMA-424) list of everything that `make setup` and its variants install, from lock files and the list
# of Debian packages.
sbom:
	@mkdir -p build
	@$(PYTHON) workflow/setup/sbom.py > build/sbom.cdx.json
	@echo "sbom: created build/sbom.cdx.json"

clean:
	@echo "clean: removing $(VENV), build, caches, and results/demo; your own campaigns in results/ stay"
	@rm -rf $(VENV) build $(NATIVE)/build .snakemake .pytest_cache .ruff_cache .hypothesis bench-*.json results/demo
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
	@find $(NATIVE)/python -name '*.so' -delete

help:
	@sed -n '1,5s/^# \{0,1\}//p' Makefile
