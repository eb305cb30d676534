# `make help` lists what there is. Needs git, make, g++ and Python >= 3.10 with venv; the rest comes
# from PyPI into .venv (and, for the comparisons with torch alone, .venv-torch).

PYTHON ?= python3
JOBS ?= $(shell nproc)
CMAKE_ARGS ?=
ARGS ?=

VENV := $(CURDIR)/.venv
VENV_TORCH := $(CURDIR)/.venv-torch
PY := $(VENV)/bin/python
PY_TORCH := $(VENV_TORCH)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# cmake, ninja and ruff are the machine's own, or those that pip put into .venv.
export PATH := $(VENV)/bin:$(PATH)
CPP = $$(git ls-files "src/*.cpp" "src/*.h")
IN_PLACE := PYTHONPATH=$(CURDIR)/python
CONFIGURE = cmake -S . -G Ninja -DPython_EXECUTABLE=$(PY) \
	-DPython_INCLUDE_DIR=$$($(PY) tools/python_headers.py) -DRUSHLIGHT_WERROR=ON -DRUSHLIGHT_ISA_ONLY= $(CMAKE_ARGS)

.PHONY: help quickstart build test fuzz test-torch bench bench-full lint format sanitize wheel docs coverage stubs loc clean
.DEFAULT_GOAL := help

help:
	@echo 'make quickstart   build, train a network on handwritten digits, write runs/quickstart/'
	@echo 'make build        build in place: from then on PYTHONPATH=python is enough'
	@echo 'make test         the tests                         ARGS="-k conv -x" goes to pytest'
	@echo 'make test-torch   the comparisons with torch, which it installs in .venv-torch'
	@echo 'make lint         ruff, clang-format, and a build in which warnings are errors; make format'
	@echo 'make fuzz         the long sweeps of bad input: every op, damaged checkpoint files'
	@echo 'make bench        what an operation and a start cost beside torch: a minute'
	@echo 'make bench-full   kernels, networks and data loading too, beside torch, torch.compile and'
	@echo '                  JAX: an hour, of which most is compilation; ARGS=--two-threads'
	@echo 'make sanitize     the tests under the address and undefined-behaviour sanitizers'
	@echo 'make wheel        dist/rushlight-*.whl, tried in an empty environment'
	@echo 'make docs         build/docs/: a page per public module'
	@echo 'make coverage     docs/coverage.md: which of torch'\''s names there are'
	@echo 'make stubs        tests/golden/*.pyi anew, after a row changed its signature'
	@echo 'make loc          hand-written lines by area'
	@echo 'For a quick build: make build CMAKE_ARGS=-DRUSHLIGHT_ISA_ONLY=avx2'

$(VENV)/ready: pyproject.toml tools/requirements.py
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) tools/requirements.py build test examples lint > $(VENV)/requirements.txt
	$(PY) $(PIP_INSTALL) -r $(VENV)/requirements.txt
	touch $@

$(VENV_TORCH)/ready: pyproject.toml tools/requirements.py
	test -x $(PY_TORCH) || $(PYTHON) -m venv $(VENV_TORCH)
	$(PY) tools/requirements.py test bench > $(VENV_TORCH)/requirements.txt
	$(PY_TORCH) $(PIP_INSTALL) -r $(VENV_TORCH)/requirements.txt
	touch $@

build: $(VENV)/ready
	$(CONFIGURE) -B build/dev
	cmake --build build/dev -j $(JOBS)
	cmake --install build/dev --prefix python

quickstart: build
	$(IN_PLACE) $(PY) examples/quickstart.py

# The last lines repeat the kernel tests on the lesser instruction sets; pytest's 5 is "no test
# selected", which is right when ARGS selects none of them.
test: build
	$(IN_PLACE) $(PY) -m pytest $(ARGS)
	$(IN_PLACE) $(PY) -m pytest --isa avx2 $(ARGS) || test $$? = 5
	$(IN_PLACE) $(PY) -m pytest --isa sse42 $(ARGS) || test $$? = 5

fuzz: build
	$(IN_PLACE) $(PY) -m pytest --fuzz -m fuzz $(ARGS)

test-torch: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m pytest -m torch $(ARGS)

bench: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m bench $(ARGS)

bench-full: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m bench --full $(ARGS)

lint: build
	ruff check .
	clang-format --dry-run --Werror $(CPP)

format: $(VENV)/ready
	ruff check --fix-only .
	clang-format -i $(CPP)

# Python and its allocator are not built with the sanitizers: they are preloaded, and what Python
# itself never frees is named in tools/lsan.supp.
sanitize: $(VENV)/ready
	$(CONFIGURE) -B build/sanitize -DRUSHLIGHT_SANITIZE=ON
	cmake --build build/sanitize -j $(JOBS)
	rm -rf build/sanitize/python
	cmake --install build/sanitize --prefix build/sanitize/python
	cmake --install build/sanitize --prefix build/sanitize/python --component python
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=4096 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.supp:print_suppressions=0 \
	UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/sanitize/python $(PY) -m pytest $(ARGS)

wheel: $(VENV)/ready
	rm -rf dist build/wheel-test
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist \
		--config-settings=cmake.define.Python_INCLUDE_DIR=$$($(PY) tools/python_headers.py) .
	$(PYTHON) -m venv build/wheel-test
	build/wheel-test/bin/python $(PIP_INSTALL) dist/rushlight-*.whl
	cd build && wheel-test/bin/python ../tools/check_install.py
	ls -l dist

docs: build
	$(IN_PLACE) $(PY) docs/build.py build/docs

coverage: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) docs/coverage.py docs/coverage.md

# The Python surface of the op table, kept for review.
stubs:
	$(PYTHON) -m gen --stubs tests/golden

loc:
	@$(PYTHON) tools/count_lines.py

clean:
	rm -rf build dist python/rushlight/_C*.so python/rushlight/lib
