# Builds and tests epcomm. The library needs only a C compiler, its tests also `make cuda-deps` and g++.
EPCOMM         = native/epcomm
EPCOMM_VERSION = 0.1.0
EPCOMM_OUT     = $(BINDIR)/epcomm
EPCOMM_SRC     = $(wildcard $(EPCOMM)/src/*.c)
EPCOMM_TESTS   = $(EPCOMM)/gpu/gpu.c $(addprefix $(EPCOMM)/tests/,world.c moe.c any.c ranks.c faults.c settings.c chain.c order.c wrap.c spoiled.c lost.c soak.c arguments.c nodes.c)
EPCOMM_HEADERS = $(wildcard $(EPCOMM)/include/*.h $(EPCOMM)/src/*.h $(EPCOMM)/tests/*.h $(EPCOMM)/gpu/*.h native/include/*.h)
EPCOMM_FLAGS   = -std=c99 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wconversion -Werror -fvisibility=hidden -fPIC \
  -I$(EPCOMM)/include -I$(EPCOMM)/src -Inative/include
EPCOMM_TEST_FLAGS = $(filter-out -Wconversion,$(EPCOMM_FLAGS)) -O1 -g -I$(EPCOMM)/tests -I$(EPCOMM)/gpu
EPCOMM_CHECKED = -fsanitize=address,undefined -fno-sanitize-recover=all
EPCOMM_LIBS    = -ldl -lpthread -lm
PREFIX        ?= /usr/local

.PHONY: epcomm epcomm-native install epcomm-test epcomm-only lost-test epcomm-check epcomm-fuzz epcomm-gpu faults-gpu layouts-gpu deepep-test engines-emulated epcomm-worker epcomm-verify epcomm-wheel

epcomm: $(EPCOMM_OUT)/libepcomm.so $(EPCOMM_OUT)/libepcomm.a $(EPCOMM_OUT)/epcomm.pc $(BINDIR)/epbench-compile ## libepcomm, and epbench-compile for epbench pack

$(EPCOMM_OUT)/obj/%.o: $(EPCOMM)/src/%.c $(EPCOMM_HEADERS)
	@mkdir -p $(EPCOMM_OUT)/obj
	$(CC) $(EPCOMM_FLAGS) -O2 -c $< -o $@

EPCOMM_OBJECTS = $(patsubst $(EPCOMM)/src/%.c,$(EPCOMM_OUT)/obj/%.o,$(EPCOMM_SRC))

$(EPCOMM_OUT)/libepcomm.a: $(EPCOMM_OBJECTS)
	rm -f $@ && $(AR) rcs $@ $^

$(EPCOMM_OUT)/libepcomm.so: $(EPCOMM_OBJECTS)
	$(CC) -shared -Wl,-soname,libepcomm.so.1 -Wl,--no-undefined -o $@ $^ $(EPCOMM_LIBS)
	ln -sf libepcomm.so $(EPCOMM_OUT)/libepcomm.so.1

$(EPCOMM_OUT)/epcomm.pc: $(EPCOMM)/epcomm.pc.in $(EPCOMM)/epcomm.mk
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(EPCOMM_VERSION)|' $< > $@

# Go decides whether epbench-compile is up to date.
.PHONY: $(BINDIR)/epbench-compile
$(BINDIR)/epbench-compile:
	CGO_ENABLED=1 $(GO) build -trimpath -tags nvrtc -o $@ ./cmd/epbench-compile

install: epcomm ## copy libepcomm, its headers and epcomm.pc to PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(EPCOMM_OUT)/libepcomm.so $(DESTDIR)$(PREFIX)/lib/libepcomm.so.1
	ln -sf libepcomm.so.1 $(DESTDIR)$(PREFIX)/lib/libepcomm.so
	install -m 644 $(EPCOMM_OUT)/libepcomm.a $(DESTDIR)$(PREFIX)/lib/
	install -m 644 $(EPCOMM)/include/epcomm.h $(EPCOMM)/include/epcomm_deepep.h $(DESTDIR)$(PREFIX)/include/
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(EPCOMM_VERSION)|' $(EPCOMM)/epcomm.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/epcomm.pc

$(EPCOMM_OUT)/epcomm-test: $(EPCOMM_TESTS) $(EPCOMM_HEADERS) $(EPCOMM_OUT)/libepcomm.a
	$(CC) $(EPCOMM_TEST_FLAGS) -o $@ $(EPCOMM_TESTS) $(EPCOMM_OUT)/libepcomm.a $(EPCOMM_LIBS)

# The library with the address and undefined-behaviour sanitizers.
EPCOMM_CHECKED_OBJECTS = $(patsubst $(EPCOMM)/src/%.c,$(EPCOMM_OUT)/checked/%.o,$(EPCOMM_SRC))
$(EPCOMM_OUT)/checked/%.o: $(EPCOMM)/src/%.c $(EPCOMM_HEADERS)
	@mkdir -p $(EPCOMM_OUT)/checked
	$(CC) $(EPCOMM_TEST_FLAGS) $(EPCOMM_CHECKED) -c $< -o $@

$(EPCOMM_OUT)/epcomm-test-checked: $(EPCOMM_TESTS) $(EPCOMM_CHECKED_OBJECTS) $(EPCOMM_HEADERS)
	$(CC) $(EPCOMM_TEST_FLAGS) $(EPCOMM_CHECKED) -o $@ $(EPCOMM_TESTS) $(EPCOMM_CHECKED_OBJECTS) $(EPCOMM_LIBS)

# epcomm-fuzz changes a pack at random, corrects its digest and reads it. With clang, add -fsanitize=fuzzer
# -DLIBFUZZER.
$(EPCOMM_OUT)/epcomm-fuzz: $(EPCOMM)/tests/fuzz_pack.c $(EPCOMM_CHECKED_OBJECTS) $(EPCOMM_HEADERS)
	$(CC) $(EPCOMM_TEST_FLAGS) $(EPCOMM_CHECKED) -o $@ $(EPCOMM)/tests/fuzz_pack.c $(EPCOMM_CHECKED_OBJECTS) $(EPCOMM_LIBS)

epcomm-check: ## check that the headers are C99 and C++17, and that driver.h agrees with cuda.h, if cuda.h is installed
	@mkdir -p $(EPCOMM_OUT)
	echo '#include "epcomm_deepep.h"' | $(CC) -std=c99 -pedantic-errors -Wall -Wextra -Werror -I$(EPCOMM)/include -fsyntax-only -x c -
	echo '#include "epcomm_deepep.h"' | $(CXX) -std=c++17 -pedantic-errors -Wall -Wextra -Werror -I$(EPCOMM)/include -fsyntax-only -x c++ -
	test -z "$(CUDA_DIR)" || $(CC) $(EPCOMM_FLAGS) -I$(CUDA_DIR)/include -fsyntax-only $(EPCOMM)/tests/driver_test.c

epcomm-fuzz: $(EPCOMM_OUT)/epcomm-fuzz $(EPCOMM_OUT)/test.pack ## read FUZZRUNS mutated packs under sanitizers
	$(EPCOMM_OUT)/epcomm-fuzz $(EPCOMM_OUT)/test.pack $(FUZZRUNS)
	$(EPCOMM_OUT)/epcomm-fuzz $(EPCOMM_OUT)/nodes.pack $$(($(FUZZRUNS) / 8))
FUZZRUNS ?= 20000

# The layouts of the test packs.
EPCOMM_LAYOUTS = expert masked rank rank:packed expert:128
EPCOMM_EMULATED = EPBENCH_NVRTC=$(EMULATED) EPBENCH_NVSHMEM=$(EMULATED)/nvshmem EPBENCH_CACHE=$(EMULATED)/cache EMUL_SRC=$(CURDIR)/native/emul/src

.PHONY: $(EPCOMM_OUT)/testpack
$(EPCOMM_OUT)/testpack:
	$(GO) build -o $@ $(EPCOMM)/tests/testpack.go

$(EPCOMM_OUT)/test.pack: $(BINDIR)/epbench-compile $(EMULATED)/libcuda.so.1 $(EPCOMM_OUT)/testpack
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -o $@
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -max-tokens 25 -o $(EPCOMM_OUT)/other.pack
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -layout masked -o $(EPCOMM_OUT)/masked.pack
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -ranks 4 -o $(EPCOMM_OUT)/four.pack
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -ranks 4 -nodes 2 -o $(EPCOMM_OUT)/nodes.pack
	$(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -every -layout masked -ranks 8 -survivors -o $(EPCOMM_OUT)/survivors.pack
	for l in rank rank:packed; do $(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -every -layout $$l -ranks 4 -survivors -o $(EPCOMM_OUT)/survivors-$$(echo $$l | tr : -).pack || exit 1; done
	for l in $(EPCOMM_LAYOUTS); do $(EPCOMM_EMULATED) $(EPCOMM_OUT)/testpack -compile $(BINDIR)/epbench-compile -every -layout $$l -o $(EPCOMM_OUT)/every-$$(echo $$l | tr : -).pack || exit 1; done

$(EPCOMM_OUT)/example-processes: examples/epcomm/processes.c $(EPCOMM)/gpu/gpu.c $(EPCOMM_OUT)/libepcomm.a
	$(CC) -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror -I$(EPCOMM)/include -I$(EPCOMM)/gpu -o $@ $^ $(EPCOMM_LIBS)

$(EPCOMM_OUT)/example-threads: examples/epcomm/threads.cpp $(EPCOMM_OUT)/obj-gpu.o $(EPCOMM_OUT)/libepcomm.a
	$(CXX) -std=c++20 -Wall -Wextra -Werror -I$(EPCOMM)/include -I$(EPCOMM)/gpu -o $@ $^ $(EPCOMM_LIBS)

$(EPCOMM_OUT)/obj-gpu.o: $(EPCOMM)/gpu/gpu.c $(EPCOMM_HEADERS)
	@mkdir -p $(EPCOMM_OUT)
	$(CC) -std=c99 -D_GNU_SOURCE -Wall -Wextra -Werror -c -o $@ $<

# The Python package's extension needs only PyTorch's headers, from $(PYTHON) or $(TORCH_ENV), otherwise from the
# wheel below. It uses PyTorch's stable ABI.
PYTHON         ?= python3
TORCH_VERSION   = 2.11.0
TORCH_HEADERS   = $(CUDA_LOCAL)/torch-$(TORCH_VERSION)
TORCH_ENV       = $(CUDA_LOCAL)/torch
PYTHON_INCLUDE ?= $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_path('include'))")
TORCH_INCLUDE  ?= $(or $(shell $(PYTHON) -c "import importlib.util, os; print(os.path.join(os.path.dirname(importlib.util.find_spec('torch').origin), 'include'))" 2>/dev/null),$(firstword $(wildcard $(TORCH_ENV)/lib/python3*/site-packages/torch/include)),$(TORCH_HEADERS)/torch/include)
NATIVE         = native/python/epcomm/native
NATIVE_FLAGS   = -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -DTORCH_TARGET_VERSION=0x0209000000000000 \
  -isystem $(TORCH_INCLUDE) -isystem $(PYTHON_INCLUDE) -I$(EPCOMM)/include
NATIVE_OBJECTS = $(patsubst $(NATIVE)/%.cpp,$(EPCOMM_OUT)/native/%.o,$(wildcard $(NATIVE)/*.cpp))

# The wheel for macOS is the smallest (74 MB), and has the same headers.
$(TORCH_HEADERS)/torch/include:
	mkdir -p $(TORCH_HEADERS)
	$(PIP) download -q --no-deps --only-binary=:all: --platform macosx_11_0_arm64 --platform macosx_14_0_arm64 --python-version 312 -d $(TORCH_HEADERS) torch==$(TORCH_VERSION)
	cd $(TORCH_HEADERS) && python3 -c "import glob, zipfile; z = zipfile.ZipFile(glob.glob('*.whl')[0]); z.extractall('.', [n for n in z.namelist() if n.startswith('torch/include/')])"
	rm $(TORCH_HEADERS)/*.whl

# PyTorch's headers take two thirds of the compile time, so they are compiled once.
$(EPCOMM_OUT)/native/headers.h.gch: $(wildcard $(NATIVE)/*.h) $(wildcard $(EPCOMM)/include/*.h) | $(TORCH_INCLUDE)
	@mkdir -p $(EPCOMM_OUT)/native
	echo '#include "$(CURDIR)/$(NATIVE)/python.h"' > $(EPCOMM_OUT)/native/headers.h
	$(CXX) $(NATIVE_FLAGS) -x c++-header $(EPCOMM_OUT)/native/headers.h -o $@

$(EPCOMM_OUT)/native/%.o: $(NATIVE)/%.cpp $(EPCOMM_OUT)/native/headers.h.gch
	$(CXX) $(NATIVE_FLAGS) -Winvalid-pch -include $(EPCOMM_OUT)/native/headers.h -c $< -o $@

# The extension is linked to an empty libtorch_cpu.so. At run time PyTorch has loaded its own before the extension.
$(EPCOMM_OUT)/libepcomm_native.so: $(NATIVE_OBJECTS)
	@mkdir -p $(EPCOMM_OUT)/native/torch
	echo | $(CC) -shared -Wl,-soname,libtorch_cpu.so -o $(EPCOMM_OUT)/native/torch/libtorch_cpu.so -x c -
	$(CXX) -shared -o $@ $^ -L$(EPCOMM_OUT)/native/torch -Wl,--no-as-needed -ltorch_cpu

# With only the stable ABI, one binary works with PyTorch from 2.9 and Python from 3.10 on.
epcomm-native: $(EPCOMM_OUT)/libepcomm_native.so ## the Python package's extension, from PyTorch's headers
	@unstable=$$(nm -D --undefined-only $< | awk '{print $$2}' | grep -E '^_ZNK?(2at|3c10|5torch)' || true); \
	  test -z "$$unstable" || { echo "$< calls functions outside PyTorch's stable ABI: $$unstable"; exit 1; }

# The wheel is made from a copy of the package. If the libraries were copied into the package itself, tests that run
# meanwhile would load them.
WHEEL_COPY = $(EPCOMM_OUT)/package
epcomm-wheel: epcomm epcomm-native ## a Python wheel with the library and the extension in it, in bin/
	rm -rf $(WHEEL_COPY) && mkdir -p $(WHEEL_COPY)
	cd native/python/epcomm && cp --parents pyproject.toml setup.py $$(find src -name '*.py') $(abspath $(WHEEL_COPY))
	cp $(EPCOMM_OUT)/libepcomm.so $(EPCOMM_OUT)/libepcomm_native.so $(WHEEL_COPY)/src/epcomm/
	$(PIP) wheel -q --no-deps -w $(BINDIR) $(WHEEL_COPY)

# The steps are split into three targets, which make -j3 runs at once, because most steps wait.
EPCOMM_LOST_STEPS = ^(lost|grow|refuse|killing)
EPCOMM_LAYOUT_STEPS = ^(wrap|mixed|soak|spoiled)
EPCOMM_STEPS = LAYOUTS="$(subst :,-,$(EPCOMM_LAYOUTS))" LD_LIBRARY_PATH=$(EMULATED) $(EPCOMM_EMULATED) $(EPCOMM)/tests/run.sh $(EPCOMM_OUT)
.PHONY: epcomm-test-ready epcomm-test-lost epcomm-test-layouts epcomm-test-others
epcomm-test-ready: build epcomm epcomm-check $(EPCOMM_OUT)/example-processes $(EPCOMM_OUT)/example-threads $(EPCOMM_OUT)/epcomm-test $(EPCOMM_OUT)/epcomm-test-checked $(EPCOMM_OUT)/test.pack
epcomm-test-lost: epcomm-test-ready
	ONLY='$(EPCOMM_LOST_STEPS)' $(EPCOMM_STEPS)
epcomm-test-layouts: epcomm-test-ready
	ONLY='$(EPCOMM_LAYOUT_STEPS)' $(EPCOMM_STEPS)
epcomm-test-others: epcomm-test-ready epcomm-fuzz
	EXCEPT='$(EPCOMM_LOST_STEPS)|$(EPCOMM_LAYOUT_STEPS)' $(EPCOMM_STEPS)
epcomm-test: epcomm-test-lost epcomm-test-layouts epcomm-test-others ## test the library on the emulated driver: processes, threads, faults, sanitizers, fuzzing

epcomm-only: $(EPCOMM_OUT)/epcomm-test $(EPCOMM_OUT)/libepcomm.so ## run the steps of epcomm-test whose names match ONLY; needs the packs that epcomm-test makes
	ONLY='$(value ONLY)' $(EPCOMM_STEPS)

# TORCH_ENV is an environment with PyTorch (530 MB), for tests on the emulated driver. PyTorch's CUDA libraries (3 GB)
# are left out, because the tests compute on the CPU.
TORCH_PINS = torch==$(TORCH_VERSION) numpy==2.2.6 filelock==4.3.1 fsspec==2026.9.0 jinja2==3.1.6 markupsafe==3.0.4 mpmath==1.3.0 networkx==3.6.1 sympy==1.14.0 typing-extensions==4.16.0
$(TORCH_ENV):
	python3 -m venv $@
	$@/bin/pip install -q --no-compile --no-deps --only-binary=:all: --no-cache-dir $(TORCH_PINS) && $@/bin/python native/python/without_cuda.py || { rm -r $@; exit 1; }

.PHONY: torch-env epcomm-torch
torch-env: $(TORCH_ENV) ## PyTorch without CUDA's libraries, in .cuda/torch, for epcomm-torch (530 MB)

# The default steps take a minute of CPU time. TORCH_STEPS='torch-.*|deepep|streams|shrink' runs the others.
TORCH_STEPS ?= ep|agreement|elastic|deepep-extension
epcomm-torch: epcomm epcomm-native $(EPCOMM_OUT)/epcomm-test | $(TORCH_ENV) ## run the tests of epcomm's Python modules that need PyTorch, on the emulated driver; needs the packs that epcomm-test makes
	PATH=$(TORCH_ENV)/bin:$$PATH $(MAKE) epcomm-only ONLY='^($(TORCH_STEPS))$$'

LOST ?= 100
lost-test: $(EPCOMM_OUT)/epcomm-test $(EPCOMM_OUT)/test.pack ## kill ranks at each step of a call on the emulated driver, LOST times a step (default 100); takes an hour on two idle cores
	LD_LIBRARY_PATH=$(EMULATED) $(EPCOMM_EMULATED) $(EPCOMM)/tests/lost.sh $(EPCOMM_OUT) $(LOST)

# Put a checkout of DeepEP v1.2.1 into .peers.
DEEPEP_TESTS ?= .peers/DeepEP/tests
deepep-test: build epcomm $(EMULATED)/libcuda.so.1 ## run DeepEP's own tests (DEEPEP_TESTS) with epcomm.deepep in DeepEP's place, on the emulated driver; needs PyTorch and NumPy
	LD_LIBRARY_PATH=$(EMULATED) $(EPCOMM_EMULATED) $(EPCOMM)/tests/deepep.sh $(DEEPEP_TESTS) $(EPCOMM_OUT)

# native/engines/fetch.sh downloads the engines' sources. The tests of all three take 2 to 3 minutes of CPU.
ENGINES_RUN ?= megatron sglang vllm
engines-emulated: build epcomm epcomm-native $(EMULATED)/libcuda.so.1 ## run SGLang, vLLM and Megatron-Core with epcomm.deepep in DeepEP's place, on the emulated driver; needs PyTorch and .engines
	LD_LIBRARY_PATH=$(EMULATED) $(EPCOMM_EMULATED) ENGINES_EMULATED=1 native/engines/run.sh $(ENGINES_RUN)

# epcomm-gpu makes the files in bin/ (under 64 MiB) for native/epcomm/run-gpu.sh on a GPU host.
EPCOMM_NVRTC = $(firstword $(wildcard $(CUDA_LOCAL)/lib64 $(CUDA_DIR)/lib64))
epcomm-gpu: epcomm $(EPCOMM_OUT)/epcomm-test $(CUDA_STUB)/libcuda.so ## programs and packs for native/epcomm/run-gpu.sh
	@mkdir -p $(BINDIR)/packs
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINDIR)/epbench ./cmd/epbench
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/epbench-cuda ./cmd/epbench-cuda
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/epcomm-worker ./cmd/epcomm-worker
	EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(BINDIR)/epbench pack --embedded --model deepseek-v3 --ranks 2 --max-tokens 4096 --dtype fp8,bf16 -o $(BINDIR)/packs/dsv3.pack
	EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(GO) run $(EPCOMM)/tests/testpack.go -compile $(BINDIR)/epbench-compile -o $(BINDIR)/packs/small.pack
	EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(GO) run $(EPCOMM)/tests/testpack.go -compile $(BINDIR)/epbench-compile -max-tokens 25 -o $(BINDIR)/packs/other.pack
	@du -sh $(BINDIR)/epbench $(BINDIR)/epbench-cuda $(BINDIR)/epcomm-worker $(BINDIR)/packs $(BINDIR)/epcomm

# faults-gpu makes the files in bin/ (5 MiB) for native/epcomm/run-faults.sh and run-lost.sh on a GPU host.
faults-gpu: $(EPCOMM_OUT)/epcomm-test $(BINDIR)/epbench-compile ## programs and packs for native/epcomm/run-faults.sh and run-lost.sh
	@mkdir -p $(BINDIR)/packs
	EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(GO) run $(EPCOMM)/tests/testpack.go -compile $(BINDIR)/epbench-compile -every -layout masked -survivors -o $(BINDIR)/packs/survivors.pack
	for l in $(EPCOMM_LAYOUTS); do EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(GO) run $(EPCOMM)/tests/testpack.go -compile $(BINDIR)/epbench-compile -every -layout $$l -o $(BINDIR)/packs/every-$$(echo $$l | tr : -).pack || exit 1; done

# layouts-gpu makes bin/layouts-gpu.tar.xz (under 64 MiB) for native/epcomm/run-layouts.sh, with packs for the shapes
# of DeepEP's tests.
LAYOUT_PACK = EPBENCH_NVRTC=$(EPCOMM_NVRTC) $(BINDIR)/epbench pack --embedded --ranks 2 --hidden 7168 --topk 8 --dtype fp8,bf16 --precision reduced
layouts-gpu: epcomm $(CUDA_STUB)/libcuda.so ## programs and packs for native/epcomm/run-layouts.sh
	@mkdir -p $(BINDIR)/packs/layouts $(BINDIR)/layouts-gpu
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINDIR)/epbench ./cmd/epbench
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/epbench-cuda ./cmd/epbench-cuda
	$(LAYOUT_PACK) --layout rank:packed --raw --max-sms 24 --experts 256 --max-tokens 4096 -o $(BINDIR)/packs/layouts/normal.pack
	for n in 32 128; do $(LAYOUT_PACK) --layout masked --experts 256 --max-tokens $$n -o $(BINDIR)/packs/layouts/decode-$$n.pack || exit 1; done
	for n in 128 1024; do \
	  $(LAYOUT_PACK) --layout masked --experts 288 --max-tokens $$n -o $(BINDIR)/packs/layouts/masked-$$n.pack || exit 1; \
	  $(LAYOUT_PACK) --layout masked --raw --experts 288 --max-tokens $$n -o $(BINDIR)/packs/layouts/masked-raw-$$n.pack || exit 1; \
	done
	for raw in "" -raw; do $(LAYOUT_PACK) --layout masked $${raw:+-$$raw} --experts 64 --max-tokens 4096 -o $(BINDIR)/packs/layouts/masked-64$$raw-4096.pack || exit 1; done
	cp $(BINDIR)/epbench $(BINDIR)/epbench-cuda $(BINDIR)/epbench-compile $(BINDIR)/layouts-gpu/
	mkdir -p $(BINDIR)/layouts-gpu/epcomm $(BINDIR)/layouts-gpu/packs && cp $(EPCOMM_OUT)/libepcomm.so $(BINDIR)/layouts-gpu/epcomm/ && cp -r $(BINDIR)/packs/layouts $(BINDIR)/layouts-gpu/packs/
	tar -C $(BINDIR)/layouts-gpu -cJf $(BINDIR)/layouts-gpu.tar.xz .
	@du -sh $(BINDIR)/layouts-gpu.tar.xz

# The last command covers tokens that the caller passes as fp8.
epcomm-verify: build epcomm-worker $(EMULATED)/libcuda.so.1 ## run the tests of epcomm-worker, and compare some of its calls with the oracle, on the emulated driver
	LD_LIBRARY_PATH=$(EMULATED) $(call cuda_env,$(CUDA_DIR)) $(GO) test -tags cuda -count=1 ./cmd/epcomm-worker
	$(EPCOMM_VERIFY) --quick --only op=combine,hidden=512
	$(EPCOMM_VERIFY) --only dtype=fp8,layout=rank:packed,hidden=512
EPCOMM_VERIFY = LD_LIBRARY_PATH=$(EMULATED) $(EPCOMM_EMULATED) EPBENCH_CUDA=$(CURDIR)/$(BINDIR)/epcomm-worker \
  $(BINDIR)/epbench verify --backend cuda:deadline=60s --ranks 2

epcomm-worker: cuda-toolkit $(CUDA_STUB)/libcuda.so ## bin/epcomm-worker, which makes epcomm's calls for epbench by the worker protocol
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -o $(BINDIR)/epcomm-worker ./cmd/epcomm-worker
	@$(call unresolved,$(BINDIR)/epcomm-worker)
