# Targets for programs that need CUDA. CUDA_DIR is the first of CUDA_HOME, /usr/local/cuda and .cuda that has cuda.h.
CUDA_WHEELS   = 13.0
CUDA12_WHEELS = 12.9
NVSHMEM_WHEEL = 3.8.0
PIP          ?= python3 -m pip
CUDA_LOCAL    = $(CURDIR)/.cuda
CUDA_DIR     ?= $(firstword $(foreach d,$(CUDA_HOME) /usr/local/cuda $(CUDA_LOCAL),$(if $(wildcard $(d)/include/cuda.h),$(d))))
CUDA_STUB     = $(CUDA_LOCAL)/stub
GPU_BUNDLE   ?= gpu-bundle

# NATIVE_HASH makes Go build again after a change of a C file outside its package.
NATIVE_HASH = $(shell cat native/include/* native/shim/* native/compat/* native/epcomm/*/*.[ch] | sha256sum | cut -c1-16)
cuda_cflags = -O2 -Wno-deprecated-declarations -DEP_NATIVE=0x$(NATIVE_HASH) -I$(CURDIR)/native/compat -I$(1)/include
cuda_env = CGO_ENABLED=1 CGO_CFLAGS="$(cuda_cflags)" CGO_LDFLAGS="-L$(CUDA_STUB)"

.PHONY: cuda-deps nvshmem-deps cuda-stub cuda cuda-check cuda-variants gpu-bundle peers-gpu hosts-gpu hosts-variants cuda-toolkit

cuda-deps: $(if $(filter 1,$(NVSHMEM)),nvshmem-deps) ## CUDA headers and NVRTC from Python wheels into .cuda (NVSHMEM=1: NVSHMEM and nvJitLink too, 226 MB)
	mkdir -p $(CUDA_LOCAL)/wheels $(CUDA_LOCAL)/wheels12
	$(PIP) download -q --no-deps -d $(CUDA_LOCAL)/wheels 'nvidia-cuda-runtime==$(CUDA_WHEELS).*' 'nvidia-cuda-nvrtc==$(CUDA_WHEELS).*'
	$(PIP) download -q --no-deps -d $(CUDA_LOCAL)/wheels12 'nvidia-cuda-runtime-cu12==$(CUDA12_WHEELS).*'
	for w in $(CUDA_LOCAL)/wheels/*.whl; do python3 -m zipfile -e $$w $(CUDA_LOCAL)/unpacked || exit 1; done
	for w in $(CUDA_LOCAL)/wheels12/*.whl; do python3 -m zipfile -e $$w $(CUDA_LOCAL)/unpacked || exit 1; done
	rm -rf $(CUDA_LOCAL)/include $(CUDA_LOCAL)/lib64 $(CUDA_LOCAL)/12
	mkdir -p $(CUDA_LOCAL)/lib64 $(CUDA_LOCAL)/12
	mv $(CUDA_LOCAL)/unpacked/nvidia/cu13/include $(CUDA_LOCAL)/include
	mv $(CUDA_LOCAL)/unpacked/nvidia/cuda_runtime/include $(CUDA_LOCAL)/12/include
	mv $(CUDA_LOCAL)/unpacked/nvidia/cu13/lib/libnvrtc.so.13 $(CUDA_LOCAL)/unpacked/nvidia/cu13/lib/libnvrtc-builtins.so.$(CUDA_WHEELS) $(CUDA_LOCAL)/lib64/
	rm -rf $(CUDA_LOCAL)/unpacked $(CUDA_LOCAL)/wheels $(CUDA_LOCAL)/wheels12

# nvshmem-deps downloads NVSHMEM, nvJitLink and CUDA headers for the kernels that cross hosts.
nvshmem-deps:
	rm -rf $(CUDA_LOCAL)/nvshmem $(CUDA_LOCAL)/hosts
	mkdir -p $(CUDA_LOCAL)/nvshmem/lib $(CUDA_LOCAL)/hosts/wheels
	$(PIP) download -q --no-deps -d $(CUDA_LOCAL)/hosts/wheels 'nvidia-nvshmem-cu13==$(NVSHMEM_WHEEL)' 'nvidia-nvjitlink==$(CUDA_WHEELS).*' 'nvidia-cuda-cccl==$(CUDA_WHEELS).*' 'nvidia-cuda-runtime==$(CUDA_WHEELS).*'
	for w in $(CUDA_LOCAL)/hosts/wheels/*.whl; do python3 -m zipfile -e $$w $(CUDA_LOCAL)/hosts/unpacked || exit 1; done
	cd $(CUDA_LOCAL)/hosts/unpacked/nvidia && mv nvshmem/lib/libnvshmem_host.so.3 nvshmem/lib/libnvshmem_device.a nvshmem/lib/nvshmem_bootstrap_uid.so.3 nvshmem/lib/nvshmem_transport_*.so.* cu13/lib/libnvJitLink.so.13 $(CUDA_LOCAL)/nvshmem/lib/
	cd $(CUDA_LOCAL)/hosts/unpacked/nvidia && mv cu13/include $(CUDA_LOCAL)/nvshmem/include && cp -r nvshmem/include/. $(CUDA_LOCAL)/nvshmem/include/
	echo $(NVSHMEM_WHEEL) > $(CUDA_LOCAL)/nvshmem/VERSION
	rm -rf $(CUDA_LOCAL)/hosts
	@du -sh $(CUDA_LOCAL)/nvshmem

cuda-toolkit:
	@test -n "$(CUDA_DIR)" || { echo "no CUDA headers in CUDA_HOME, /usr/local/cuda or .cuda: run make cuda-deps, or set CUDA_HOME"; exit 1; }
	@test -f "$(CUDA_DIR)/include/cuda.h" || { echo "$(CUDA_DIR)/include/cuda.h is missing: set CUDA_HOME to a toolkit, or run make cuda-deps"; exit 1; }

# A libcuda.so for linking on hosts without a driver. It defines every function that cuda.h names. At run time the
# loader finds the driver's own library by its soname.
$(CUDA_STUB)/libcuda.so: native/cuda.mk | cuda-toolkit
	mkdir -p $(CUDA_STUB)
	{ echo '/* generated */'; grep -ohE '\bcu[A-Z][A-Za-z0-9_]*' $(CUDA_DIR)/include/cuda.h | sort -u | sed 's/.*/int &(void) { return 999; }/'; } > $(CUDA_STUB)/stub.c
	$(CC) -shared -fPIC -fno-builtin -Wl,-soname,libcuda.so.1 -o $@ $(CUDA_STUB)/stub.c

# unresolved checks that the driver has every function that a program calls. The linker does not check this, because of
# flags of go-nvml.
unresolved = { nm -D --defined-only $(CUDA_STUB)/libcuda.so; nm -D --undefined-only $(1); } | awk '$$1 != "U" {has[$$3]} \
  $$1 == "U" && $$2 ~ /^cu[A-Z]/ && !($$2 in has) {print "$(1) calls " $$2 ", which the driver does not have"; bad = 1} END {exit bad}'

cuda-stub: $(CUDA_STUB)/libcuda.so

cuda: cuda-toolkit $(CUDA_STUB)/libcuda.so ## bin/epbench-cuda, the GPU worker
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -o $(BINDIR)/epbench-cuda ./cmd/epbench-cuda
	@$(call unresolved,$(BINDIR)/epbench-cuda)

cuda-check: cuda-toolkit $(CUDA_STUB)/libcuda.so ## vet the code of the GPU programs, and build the worker with headers of CUDA 12 if present
	$(call cuda_env,$(CUDA_DIR)) $(GO) vet -tags cuda,nvrtc ./kernels/cuda/... ./native/... ./cmd/epbench-cuda ./cmd/epbench-compile ./cmd/epcomm-worker
	@if test -f $(CUDA_LOCAL)/12/include/cuda.h; then echo "headers of CUDA $(CUDA12_WHEELS)"; \
	  $(call cuda_env,$(CUDA_LOCAL)/12) $(GO) build -tags cuda -o /dev/null ./cmd/epbench-cuda; fi

VARIANTS ?= all
cuda-variants: ## compile the default space for sm_90a (VARIANTS=pairs: a part of the space), and a part for sm_80 and sm_100a; fail if a default spills registers
	EPBENCH_VARIANTS=$(VARIANTS) EPBENCH_NVRTC=$(firstword $(wildcard $(CUDA_LOCAL)/lib64 $(CUDA_DIR)/lib64)) CGO_ENABLED=1 $(GO) test -tags nvrtc -count=1 -timeout $(PATIENCE) -run '^Test(Variants|Compile)' -v ./kernels/cuda/compile ./kernels/cuda/nvrtc

hosts-variants: ## compile and link the kernels that cross hosts; needs make cuda-deps NVSHMEM=1
	EPBENCH_NVRTC=$(firstword $(wildcard $(CUDA_LOCAL)/lib64 $(CUDA_DIR)/lib64)) EPBENCH_NVSHMEM=$(CUDA_LOCAL)/nvshmem CGO_ENABLED=1 $(GO) test -tags nvrtc -count=1 -timeout $(PATIENCE) -run '^TestLinkHosts' -v ./kernels/cuda/compile

gpu-bundle: build cuda ## a folder of programs and tests to copy to a GPU host (NVRTC=0 leaves libnvrtc out)
	rm -rf $(GPU_BUNDLE) && mkdir -p $(GPU_BUNDLE)
	cp $(BINDIR)/epbench $(BINDIR)/epbench-cuda native/steps.sh native/run-tests.sh native/make-tables.sh native/record-truth.sh native/silu-gpu.sh native/*-space.yaml $(GPU_BUNDLE)/
	$(call cuda_env,$(CUDA_DIR)) $(GO) test -c -tags cuda -trimpath -o $(GPU_BUNDLE)/cuda.test ./kernels/cuda/drive
	@$(call unresolved,$(GPU_BUNDLE)/cuda.test)
	test "$(NVRTC)" = 0 || cp -L $(firstword $(wildcard $(CUDA_LOCAL)/lib64 $(CUDA_DIR)/lib64))/libnvrtc*.so.* $(GPU_BUNDLE)/
	chmod +x $(GPU_BUNDLE)/*.sh
	@du -sh $(GPU_BUNDLE)

peers-gpu: cuda-toolkit $(CUDA_STUB)/libcuda.so ## an archive for native/python/workers/run-gpu.sh
	@mkdir -p $(BINDIR)/peers-gpu
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINDIR)/peers-gpu/epbench ./cmd/epbench
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/peers-gpu/epbench-cuda ./cmd/epbench-cuda
	tar -C $(BINDIR)/peers-gpu -cJf $(BINDIR)/peers-gpu.tar.xz epbench epbench-cuda
	@du -sh $(BINDIR)/peers-gpu.tar.xz

# HOSTS_ARCH is the only architecture for which the archive's NVSHMEM keeps device code.
HOSTS_ARCH ?= 90
hosts-gpu: cuda-toolkit $(CUDA_STUB)/libcuda.so ## an archive for native/hosts-gpu.sh; needs make cuda-deps NVSHMEM=1
	@test -f $(CUDA_LOCAL)/nvshmem/VERSION || { echo "no .cuda/nvshmem: run make cuda-deps NVSHMEM=1"; exit 1; }
	rm -rf $(BINDIR)/hosts-gpu && mkdir -p $(BINDIR)/hosts-gpu/nvshmem/lib
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BINDIR)/hosts-gpu/epbench ./cmd/epbench
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/hosts-gpu/epbench-cuda ./cmd/epbench-cuda
	cd $(CUDA_LOCAL)/nvshmem && cp -r VERSION include $(abspath $(BINDIR))/hosts-gpu/nvshmem/ && cp lib/libnvshmem_* lib/nvshmem_bootstrap_uid.so.3 $(abspath $(BINDIR))/hosts-gpu/nvshmem/lib/
	strip --strip-unneeded $(BINDIR)/hosts-gpu/nvshmem/lib/*.so.*
	for f in $(BINDIR)/hosts-gpu/nvshmem/lib/libnvshmem_*; do python3 native/thin-fatbin.py $$f $(HOSTS_ARCH) || exit 1; done
	$(MAKE) epcomm $(EPCOMM_OUT)/epcomm-test
	$(call cuda_env,$(CUDA_DIR)) $(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $(BINDIR)/hosts-gpu/epcomm-worker ./cmd/epcomm-worker
	CGO_ENABLED=1 $(GO) build -trimpath -tags nvrtc -ldflags '-s -w' -o $(BINDIR)/hosts-gpu/epbench-compile ./cmd/epbench-compile
	strip -o $(BINDIR)/hosts-gpu/epcomm-test $(EPCOMM_OUT)/epcomm-test
	for n in 2 4; do EPBENCH_NVRTC=$(EPCOMM_NVRTC) EPBENCH_NVSHMEM=$(CUDA_LOCAL)/nvshmem \
	  $(GO) run $(EPCOMM)/tests/testpack.go -compile $(BINDIR)/hosts-gpu/epbench-compile -ranks $$n -nodes 2 -o $(BINDIR)/hosts-gpu/nodes-$$n.pack || exit 1; done
	tar -C $(BINDIR)/hosts-gpu -cJf $(BINDIR)/hosts-gpu.tar.xz .
	@du -sh $(BINDIR)/hosts-gpu.tar.xz

# The emulated driver lets the worker run without a GPU.
EMULATED = $(CUDA_LOCAL)/emulated
EMUL_CXX = $(CXX) -std=c++20 -O2 -g1 -shared -fPIC -w -Inative/include -Inative/emul/src

$(EMULATED)/libcuda.so.1: $(CUDA_STUB)/libcuda.so $(wildcard native/emul/driver/* native/emul/src/*) native/include/ep_args.h
	mkdir -p $(EMULATED)
	sed 's/^int/__attribute__((weak)) int/' $(CUDA_STUB)/stub.c > $(EMULATED)/weak.c
	$(CC) -c -fPIC -fno-builtin -w -o $(EMULATED)/weak.o $(EMULATED)/weak.c
	$(EMUL_CXX) -I$(CUDA_DIR)/include -Wl,-soname,libcuda.so.1 -o $@ native/emul/driver/driver.cpp native/emul/driver/memory.cpp native/emul/src/fiber.cpp $(EMULATED)/weak.o -ldl -lpthread
	$(EMUL_CXX) -o $(EMULATED)/libnvrtc.so.13 native/emul/driver/nvrtc.cpp
	$(EMUL_CXX) -I$(CUDA_DIR)/include -o $(EMULATED)/libcublasLt.so.13 native/emul/driver/cublaslt.cpp $@
	mkdir -p $(EMULATED)/nvshmem/lib
	$(EMUL_CXX) -o $(EMULATED)/nvshmem/lib/libnvshmem_host.so.3 native/emul/driver/nvshmem.cpp -ldl -lpthread
	ln -sf libnvshmem_host.so.3 $(EMULATED)/nvshmem/lib/libnvJitLink.so.13
	touch $(EMULATED)/nvshmem/lib/libnvshmem_device.a
	echo $(NVSHMEM_WHEEL) > $(EMULATED)/nvshmem/VERSION

# The tests are split into three targets, which make -j3 runs at once, because most tests wait.
BESIDE_TESTS = ^Test(Session(Beside|BesideTimes|Explain|OwnPlan|Products)|DrillBeside)$$
EMULATED_ENV = LD_LIBRARY_PATH=$(EMULATED) EPBENCH_NVRTC=$(EMULATED) EPBENCH_CACHE=$(EMULATED)/cache EMUL_SRC=$(CURDIR)/native/emul/src
EMULATED_TEST = $(call cuda_env,$(CUDA_DIR)) $(GO) test -tags cuda -count=1 -timeout $(PATIENCE)
.PHONY: cuda-emulated cuda-emulated-beside cuda-emulated-calls cuda-emulated-worker
cuda-emulated: cuda-emulated-calls cuda-emulated-beside cuda-emulated-worker ## the worker's tests on an emulated driver
cuda-emulated-beside cuda-emulated-calls cuda-emulated-worker: cuda $(EMULATED)/libcuda.so.1
cuda-emulated-beside:
	$(EMULATED_ENV) EPBENCH_CUBLASLT=$(EMULATED) $(EMULATED_TEST) -run '$(BESIDE_TESTS)' ./kernels/cuda/drive
cuda-emulated-calls:
	$(EMULATED_ENV) EPBENCH_CUBLASLT=$(EMULATED) $(EMULATED_TEST) -run '^Test(Session|Drill|Races)' -skip '$(BESIDE_TESTS)' ./kernels/cuda/drive
	$(EMULATED_ENV) EPBENCH_TEST_NO_CUBLASLT=1 $(EMULATED_TEST) -run '^TestSessionWithoutCublasLt$$' ./kernels/cuda/drive
cuda-emulated-worker:
	$(EMULATED_ENV) EPBENCH_NVSHMEM=$(EMULATED)/nvshmem $(EMULATED_TEST) ./cmd/epbench-cuda
