# make quickstart   build, then train a network on handwritten digits (examples/quickstart.py)
# make test         build, then run the tests
# make help         the rest
# Needs git, make, g++ and Python >= 3.10 with venv; the rest comes from PyPI into .venv.

PYTHON ?= python3
# How many compilers run at once.
JOBS ?= $(shell nproc)
# e.g. make build CMAKE_ARGS=-DRUSHLIGHT_ISA_ONLY=avx512
CMAKE_ARGS ?=
# e.g. make test ARGS='-k conv -x'
ARGS ?=

VENV := .venv
VENV_TORCH := .venv-torch
PIP := -m pip install --quiet --disable-pip-version-check
WITH_PACKAGE := PYTHONPATH=python
# A tool that pip installed is found in the environment; else the machine's own.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
CONFIGURE = cmake -S . -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/bin/python \
	-DRUSHLIGHT_WERROR=ON $(CMAKE_ARGS)

.PHONY: help build test test-torch bench bench-full lint loc sanitize wheel docs quickstart clean
.DEFAULT_GOAL := help

help:
	@echo 'make quickstart   build, train a network on handwritten digits, write runs/quickstart/'
	@echo 'make build        build in place: then PYTHONPATH=python works'
	@echo 'make test         the tests, without torch          ARGS="-k conv -x"'
	@echo 'make test-torch   the comparisons with torch 2.13   (installs it in .venv-torch)'
	@echo 'make lint         ruff, clang-format where there is one, and a build with -Werror'
	@echo 'make bench        speed and memory beside torch;    bench-full adds the long rows'
	@echo 'make sanitize     the tests under ASan and UBSan'
	@echo 'make wheel docs loc clean'

$(VENV)/ready: pyproject.toml tools/requirements.py
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python tools/requirements.py test examples lint > $(VENV)/requirements.txt
	$(VENV)/bin/python $(PIP) -r $(VENV)/requirements.txt
	touch $@

build: $(VENV)/ready
	$(CONFIGURE) -B build/dev
	cmake --build build/dev -j $(JOBS)
	cmake --install build/dev --prefix python

test: build
	$(WITH_PACKAGE) $(VENV)/bin/python -m pytest $(ARGS)

quickstart: build
	$(WITH_PACKAGE) $(VENV)/bin/python examples/quickstart.py
