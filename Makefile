# SPDX-License-Identifier: Apache-2.0
# The front door. The build itself is meson's (meson.build); every target here is one or two commands that you could type.

# What `make` builds is what `make install` installs and `make bench` measures. For a debug build see HACKING.md.
BUILD   ?= build
OPTIONS ?= --libdir=lib --buildtype=release -Dstatic=true -Db_lto=true
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
FUZZ_SECONDS ?= 60
# `make` runs one thing at a time; meson and ninja use the cores.
.NOTPARALLEL:
.PHONY: all packages packages-demo packages-check packages-test packages-lint packages-bench demo check test test-cross macos test-packages bench lint format fuzz coverage install uninstall deb release clean help

# On a terminal, ninja shows how far it is.
all:
	@scripts/setup "$(BUILD)" "$(PREFIX)" $(OPTIONS)
	@if [ -t 1 ]; then ninja -C "$(BUILD)"; else ninja -C "$(BUILD)" --quiet; fi
	@echo "built: $(BUILD)/src/cli/bailey"

packages:
	@scripts/packages build
packages-demo:
	@scripts/packages build demo
packages-check:
	@scripts/packages build demo check
packages-test:
	@scripts/packages build test lint
packages-lint:
	@scripts/packages build lint
packages-bench:
	@scripts/packages build bench

demo: packages-demo all
	@scripts/demo "$(BUILD)"

check: packages-check
	@tests/run check

test: packages-test
	@tests/run $(STAGES)

bench: packages-bench
	@$(MAKE) --no-print-directory install BUILD=build-bench PREFIX=/usr/local DESTDIR=$(CURDIR)/build-bench/installed OPTIONS='$(OPTIONS) -Dbench=true'
	@scripts/bench $(BENCH_OPTIONS)

test-packages:
	@scripts/packages build test cross package
	@scripts/deb && scripts/release && tests/fresh/packages

# For another system: nothing of it can run here. tests/macos/inspect.py looks at it.
macos:
	@scripts/packages macos
	@scripts/macos
test-cross:
	@scripts/packages build cross
	@tests/run cross

lint: packages-lint
	@LINT_DEPTH=full tests/run lint

format: packages-lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

fuzz: packages-test
	@scripts/fuzz --seconds $(FUZZ_SECONDS) $(TARGETS)

coverage: packages-test
	@scripts/coverage

install: packages
	@MAKE="$(MAKE)" scripts/install "$(BUILD)" "$(PREFIX)" "$(DESTDIR)"

uninstall:
	@scripts/uninstall "$(BUILD)" "$(PREFIX)" "$(DESTDIR)"

deb: packages
	@scripts/packages build cross package
	@scripts/deb

release: packages
	@scripts/packages build cross package
	@scripts/release

clean:
	@rm -rf "$(BUILD)" build-*

help:
	@echo "make            install what is missing (as root) and build into $(BUILD)/"
	@echo "make demo       see it work"
	@echo "make check      the quick tests: three minutes on two cores"
	@echo "make test       everything that CI runs; STAGES='gcc lint' for a part"
	@echo "make macos      what there is for macOS, built here for both of its architectures"
	@echo "make test-cross the build for the other architecture (x86_64 or aarch64), in an emulator"
	@echo "make test-packages  make deb and make release, tried on bare Debian 12 and 13"
	@echo "make bench      Bailey beside its peers: docs/benchmarks.md; BENCH_OPTIONS='--only launch'"
	@echo "make lint       format, layers, sizes, clang-tidy, cppcheck, shellcheck"
	@echo "make format     rewrite the sources with clang-format"
	@echo "make fuzz       FUZZ_SECONDS=60 for each target; TARGETS='host dns' for some"
	@echo "make coverage   line and branch coverage as HTML"
	@echo "make install    PREFIX=/usr/local DESTDIR=; programs, library, man pages, completions, Python and Node modules"
	@echo "make uninstall  remove that again; with the same PREFIX and DESTDIR"
	@echo "make deb        Debian packages for amd64 and arm64 in build-deb/"
	@echo "make release    static tarballs of both architectures, an npm package, checksums and an SBOM in build-release/"
	@echo "make clean      remove every build directory"
