# `make help` lists what there is. Needs git, make, g++ and Python >= 3.10 with venv; the rest comes
# from PyPI into .venv (and, for the comparisons with torch alone, .venv-torch).

PYTHON ?= python3
JOBS ?= $(shell nproc)
CMAKE_ARGS ?=
ARGS ?=

VENV := $(CURDIR)/.venv
VENV_TORCH := $(CURDIR)/.venv-torch
VENV_DOCS := $(CURDIR)/.venv-docs
PY := $(VENV)/bin/python
PY_DOCS := $(VENV_DOCS)/bin/python
PY_TORCH := $(VENV_TORCH)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# cmake, ninja and ruff are the machine's own, or those that pip put into .venv.
export PATH := $(VENV)/bin:$(PATH)
CPP = $$(git ls-files "src/*.cpp" "src/*.h")
IN_PLACE := PYTHONPATH=$(CURDIR)/python
# ON makes warnings errors, for whoever changes the core: another compiler may warn of more.
WERROR ?= OFF
CONFIGURE = cmake -S . -G Ninja -DPython_EXECUTABLE=$(PY) \
	-DPython_INCLUDE_DIR=$$($(PY) tools/python_headers.py) -DRUSHLIGHT_WERROR=$(WERROR) -DRUSHLIGHT_ISA_ONLY= $(CMAKE_ARGS)

.PHONY: help quickstart build test fuzz test-torch test-distributed bench bench-full lint format sanitize tsan wheel docs coverage stubs trace loc clean fresh-machine examples cuda-sim test-cuda-sim cuda-compile-check cuda-declarations gpu-check test-ecosystem install-cpp test-cpp test-onnx wheel-cpp test-wheel-cpp test-aarch64 test-aarch64-all wheels wasm test-wasm live
.DEFAULT_GOAL := help

help:
	@echo 'make quickstart   build, train a network on handwritten digits, write runs/quickstart/'
	@echo 'make build        build in place: from then on PYTHONPATH=python is enough'
	@echo 'make install-cpp  the C++ library in PREFIX (build/cpp); make test-cpp tests it'
	@echo 'make wheel-cpp    dist/rushlight_cpp-*.whl: that library for pip; make test-wheel-cpp tests it'
	@echo 'make test-onnx    ONNX beside onnxruntime, and files for TensorBoard, in .venv-onnx'
	@echo 'make test         the tests                         ARGS="-k conv -x" goes to pytest'
	@echo 'make test-aarch64  a build for aarch64, by a cross compiler, and a share of the tests in an'
	@echo '                  emulator; make test-aarch64-all runs all that start no processes: hours'
	@echo 'make wasm         the wheel for browsers (Pyodide), in build/wasm/dist; make test-wasm runs'
	@echo '                  its tests in node; make live the live pages, run in Chromium'
	@echo 'make cuda-sim     the simulator of a GPU, for RUSHLIGHT_CUDA_SIMULATOR=1; make test-cuda-sim'
	@echo 'make cuda-compile-check   the kernels of the CUDA backend, by NVIDIA'\''s compiler'
	@echo 'make gpu-check    all checks and figures on a real GPU; TORCH=python compares with its torch'
	@echo 'make test-torch   the comparisons with torch, which it installs in .venv-torch'
	@echo 'make test-ecosystem   suites of libraries with torch and with rushlight, in an environment'
	@echo '                  of their own in build/ecosystem: an hour or two; ARGS="einops pytorch-nn",'
	@echo '                  of which the last is a part of PyTorch'\''s own tests'
	@echo 'make lint         ruff, clang-format, and a build in which warnings are errors; make format'
	@echo 'make fuzz         10 minutes of each kind of tests/fuzz (hostile calls, damaged files, random'
	@echo '                  programs ...), then the sweeps of bad input; FUZZ_SECONDS=60 shortens each'
	@echo 'make bench        what an operation and a start cost beside torch: a minute'
	@echo 'make bench-full   kernels, networks and data loading too, beside torch, torch.compile and'
	@echo '                  JAX: an hour, of which most is compilation; ARGS=--two-threads'
	@echo 'make test-distributed  60 runs of several processes in which a rank fails, and restarts'
	@echo 'make sanitize     the tests under the address and undefined-behaviour sanitizers'
	@echo 'make tsan         the tests that use threads under the thread sanitizer'
	@echo 'make wheel        dist/rushlight-*.whl, tried in an empty environment; make wheels for'
	@echo '                  every Python that is here and for aarch64, checked by auditwheel'
	@echo 'make docs         build/docs/: the site, its links, search and width checked'
	@echo 'make gallery      docs/gallery/: pictures of the examples, by running them'
	@echo 'make trace        a profile'\''s trace in Perfetto'\''s page, in Chromium: what it has read, and its picture'
	@echo 'make coverage     docs/coverage.md: which of torch'\''s names there are'
	@echo 'make stubs        the type stubs anew, after a row changed its signature'
	@echo 'make examples     ops/examples.py anew: what the examples of operations print'
	@echo 'make sbom         licenses/sbom.cdx.json: what a wheel is made of'
	@echo 'make loc          hand-written lines by area; rows of the op table that are enough'
	@echo 'make fresh-machine SUITE=trixie   quickstart and test in a bare Debian (root, debootstrap)'
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

$(VENV_DOCS)/ready: pyproject.toml tools/requirements.py
	test -x $(PY_DOCS) || $(PYTHON) -m venv $(VENV_DOCS)
	$(PY) tools/requirements.py docs > $(VENV_DOCS)/requirements.txt
	$(PY_DOCS) $(PIP_INSTALL) -r $(VENV_DOCS)/requirements.txt
	touch $@

build: $(VENV)/ready
	$(CONFIGURE) -B build/dev
	cmake --build build/dev -j $(JOBS)
	cmake --build build/dev -j $(JOBS) --target core_tests
	cmake --install build/dev --prefix python --strip

# The C++ library, with a CMake package and a pkg-config file. The sources are compiled once more,
# with names that others can link to: ten minutes on two cores.
PREFIX ?= $(CURDIR)/build/cpp
install-cpp: build
	cmake --build build/dev -j $(JOBS) --target rushlight rushlight-run-installed
	cmake --install build/dev --prefix $(PREFIX) --component cpp
	cmake --install build/dev --prefix $(PREFIX) --component cpp_program

# What tests/test_cpp_library.py needs: examples in C and C++ that are built with the library.
test-cpp: install-cpp
	$(IN_PLACE) $(PY) -m pytest -m cpp_library $(ARGS)

# The same library as a wheel, rushlight-cpp: one for all Pythons, where glibc is 2.28 or newer.
wheel-cpp: $(VENV)/ready
	rm -f dist/rushlight_cpp-*.whl
	JOBS=$(JOBS) tools/wheel_cpp.sh dist
	ls -l dist

test-wheel-cpp: build wheel-cpp
	rm -rf build/cpp-wheel/site
	$(PY) $(PIP_INSTALL) --no-index --no-deps --target build/cpp-wheel/site dist/rushlight_cpp-*.whl
	RUSHLIGHT_CPP=$(CURDIR)/build/cpp-wheel/site/rushlight_cpp \
	PYTHONPATH=$(CURDIR)/python:$(CURDIR)/build/cpp-wheel/site $(PY) -m pytest -m cpp_library $(ARGS)

# Models in ONNX, beside onnxruntime; and files for TensorBoard.
VENV_ONNX := $(CURDIR)/.venv-onnx
$(VENV_ONNX)/ready: pyproject.toml tools/requirements.py
	test -x $(VENV_ONNX)/bin/python || $(PYTHON) -m venv $(VENV_ONNX)
	$(PY) tools/requirements.py test onnx tensorboard > $(VENV_ONNX)/requirements.txt
	$(VENV_ONNX)/bin/python $(PIP_INSTALL) -r $(VENV_ONNX)/requirements.txt
	touch $@

test-onnx: build $(VENV_ONNX)/ready
	$(IN_PLACE) $(VENV_ONNX)/bin/python -m pytest tests/test_onnx.py tests/test_tensorboard.py $(ARGS)

quickstart: build
	$(IN_PLACE) $(PY) examples/quickstart.py

# The last lines repeat the kernel tests on the lesser instruction sets; pytest's 5 is "no test
# selected", which is right when ARGS selects none of them. Whole runs are shared out among as many
# processes as there are processors; one by ARGS is in one process, for -x, -s and --pdb.
SHARED_OUT := $(if $(ARGS),,-n $(JOBS) --dist worksteal)
test: build cuda-sim
	$(IN_PLACE) $(PY) -m pytest $(SHARED_OUT) $(ARGS)
	$(IN_PLACE) $(PY) -m pytest --isa avx2 $(SHARED_OUT) $(ARGS) || test $$? = 5
	$(IN_PLACE) $(PY) -m pytest --isa sse42 $(SHARED_OUT) $(ARGS) || test $$? = 5
	for isa in avx512 avx512_bf16; do $(IN_PLACE) $(PY) -m pytest --isa $$isa \
		tests/test_reduced_precision.py tests/test_matrix_unit.py \
		tests/test_recurrent_reduced.py || exit 1; done

# Needs Debian's g++-aarch64-linux-gnu, qemu-user-static and debootstrap, and root.
test-aarch64: $(VENV)/ready
	tools/aarch64.sh $(ARGS)
test-aarch64-all: $(VENV)/ready
	tools/aarch64.sh --all

# For the browser. Needs node with npm, and emscripten or debootstrap and root to fetch it.
wasm: $(VENV)/ready
	tools/wasm.sh
test-wasm: build
	tools/wasm.sh test $(ARGS)

# The documentation's examples as pages in which they run; Chromium runs them all.
live: wasm
	$(PY) docs/live/build.py build/wasm/node/node_modules/pyodide build/wasm/dist/rushlight-*.whl build/live
	$(PY) tools/check_live.py build/live

# The simulator of a GPU, for RUSHLIGHT_CUDA_SIMULATOR=1. ninja and the compiler alone.
cuda-sim: $(VENV)/ready
	cmake -S tools/cuda_simulator -B build/cuda-sim -G Ninja
	cmake --build build/cuda-sim -j $(JOBS)

test-cuda-sim: build cuda-sim
	$(IN_PLACE) $(PY) -m pytest --cuda-sim tests/test_cuda.py tests/test_cuda_simulator.py $(ARGS)

# All formulas of the op table, and the kernels that the tests met, by NVIDIA's own compiler, which
# needs no GPU: CUDA_NVRTC is the folder of libnvrtc.so, if it is not in this environment.
cuda-compile-check: $(VENV)/ready
	$(PY) tools/cuda_compile_check.py --library "$(CUDA_NVRTC)" --kernels $(wildcard build/cuda-sim/kernels/*)

# The functions and numbers of NVIDIA's libraries that we declare, beside its headers: CUDA_HEADERS
# are the folders of cuda.h, cublasLt.h, nvrtc.h, nccl.h and nv/target, of its wheels.
cuda-declarations:
	$(CXX) -std=c++17 -fsyntax-only -Isrc $(addprefix -isystem ,$(CUDA_HEADERS)) tools/cuda_declarations.cpp

# On a machine with a GPU. TORCH is an interpreter whose torch has CUDA, to measure beside it.
TORCH ?=
gpu-check: build
	$(IN_PLACE) $(PY) tools/gpu_check.py --torch "$(TORCH)" $(ARGS)

# Programs are compared with torch where `make test-torch` has installed it. FUZZ_SECONDS=60 shortens
# each kind; ARGS goes to them, "--first 7" for other seeds.
fuzz: build
	for kind in calls files exported transforms wrappers training memory; do \
	    (cd tests && $(IN_PLACE) $(PY) -m fuzz $$kind $(ARGS)) || exit 1; done
	for kind in programs hooks; do \
	    (cd tests && $(IN_PLACE) $(if $(wildcard $(PY_TORCH)),$(PY_TORCH),$(PY)) -m fuzz $$kind \
	        $(ARGS)) || exit 1; done
	$(IN_PLACE) $(PY) -m pytest --fuzz -m fuzz -o faulthandler_timeout=3600

test-torch: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m pytest -m torch $(SHARED_OUT) $(ARGS)

test-distributed: build
	$(IN_PLACE) $(PY) -m pytest --distributed -m distributed $(ARGS)

# What the libraries are, and how their suites are run, is in tests/ecosystem/libraries.py.
test-ecosystem: build
	cd tests && $(PY) -m ecosystem run $(ARGS)
	cd tests && $(PY) -m ecosystem classes $(ARGS)
	$(if $(ARGS),,cd tests && $(PY) -m ecosystem count && $(PY) -m ecosystem.docstrings)

bench: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m bench $(ARGS)

bench-full: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) -m bench --full $(ARGS)

lint: build
	ruff check .
	clang-format --dry-run --Werror $(CPP)
	$(PY) -m mypy tests/typing/*.py
	$(PY) tools/type_completeness.py 0.98

format: $(VENV)/ready
	ruff check --fix-only .
	clang-format -i $(CPP)

# Python and its allocator are not built with the sanitizers: they are preloaded, and what Python
# itself never frees is named in tools/lsan.supp. pytest leaves the descriptor of errors alone
# (--capture=sys): a report in a file that it captures would be lost with the process. It starts no
# thread that watches a test: a fork while that one allocates leaves the sanitizer's lock taken.
sanitize: build
	$(call build_with_sanitizer,address)
	LD_PRELOAD="$(call gcc_libraries,libasan.so libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=4096 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.supp:print_suppressions=0 \
	UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/address/python $(PY) -m pytest --capture=sys -o faulthandler_timeout=0 $(ARGS)

# Nothing is suppressed: our threads are pthreads. A race makes its process exit with 66, and so fails the test or the run.
THREADED := $(addprefix tests/test_,threads.py ops_threads.py autograd.py data.py data_workers.py \
	physical_layout.py multiprocessing.py)
tsan: $(VENV)/ready
	$(call build_with_sanitizer,thread,-DRUSHLIGHT_ISA_ONLY=avx2)
	LD_PRELOAD="$(call gcc_libraries,libtsan.so libstdc++.so)" \
	TSAN_OPTIONS=exitcode=66:die_after_fork=0 \
	PYTHONPATH=$(CURDIR)/build/thread/python $(PY) -m pytest --capture=sys -o faulthandler_timeout=3600 $(THREADED) $(ARGS)

gcc_libraries = $(foreach library,$(1),$(shell g++ -print-file-name=$(library)))
define build_with_sanitizer
	$(CONFIGURE) -B build/$(1) -DRUSHLIGHT_SANITIZE=$(1) $(2)
	cmake --build build/$(1) -j $(JOBS)
	rm -rf build/$(1)/python
	cmake --install build/$(1) --prefix build/$(1)/python --component python
	cmake --install build/$(1) --prefix build/$(1)/python
endef

wheel: $(VENV)/ready
	rm -rf dist build/wheel-test
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist \
		--config-settings=cmake.define.Python_INCLUDE_DIR=$$($(PY) tools/python_headers.py) .
	$(PYTHON) -m venv build/wheel-test
	build/wheel-test/bin/python $(PIP_INSTALL) dist/rushlight-*.whl
	cd build && wheel-test/bin/python ../tools/check_install.py
	ls -l dist

# For each Python of this machine, and for aarch64 if that was built: see the script.
wheels: $(VENV)/ready
	tools/wheels.sh

# Needs Sphinx and what else the extra `docs` names, in an environment of its own.
docs: build $(VENV_DOCS)/ready
	$(IN_PLACE) $(PY_DOCS) docs/build.py build/docs
	$(PY_DOCS) tools/check_site.py build/docs

# The pictures of the site's gallery, by running the examples: some minutes.
gallery: build
	$(IN_PLACE) $(PY) docs/gallery.py

# The trace of a profile in Perfetto's page, checked and drawn for docs/profiling.md. Needs Chromium.
trace: build $(VENV_DOCS)/ready
	$(IN_PLACE) $(PY_DOCS) tools/check_trace.py --picture docs/perfetto.png

coverage: build $(VENV_TORCH)/ready
	$(IN_PLACE) $(PY_TORCH) docs/coverage.py docs/coverage.md

fresh-machine:
	tools/fresh_machine.sh $(SUITE) $(COMPILER)

# The Python surface of the op table, kept for review.
stubs:
	$(PYTHON) -m gen --stubs python/rushlight

# licenses/sbom.cdx.json: what a wheel is made of, after a change of the build's requirements.
sbom:
	$(PYTHON) tools/sbom.py

# What the examples of the op table print; review the difference.
examples: build
	$(IN_PLACE) $(PY) tools/update_examples.py

loc:
	@$(PYTHON) tools/count_lines.py
	@$(PYTHON) tools/count_rows.py

clean:
	rm -rf build dist python/rushlight/_C*.so python/rushlight/_op_rules.py \
		python/rushlight/_op_schemas.py python/rushlight/lib
