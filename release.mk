# make release: archives for Linux on amd64 and arm64 (Grace hosts) in dist/. For an architecture
# other than this host's, the GPU worker needs a C cross-compiler: gcc-aarch64-linux-gnu or
# gcc-x86-64-linux-gnu.
VERSION ?= $(shell sed -n 's/^var version = "\(.*\)"$$/\1/p' cmd/epbench/version.go)
DIST    ?= dist
HOSTARCH = $(shell $(GO) env GOHOSTARCH)

.PHONY: release release-amd64 release-arm64 cuda-arm64

# cc names the C compiler for an architecture.
cc = $(if $(filter $(1),$(HOSTARCH)),$(CC),$(if $(filter arm64,$(1)),aarch64-linux-gnu-gcc,x86_64-linux-gnu-gcc))

$(CUDA_STUB)/%/libcuda.so: $(CUDA_STUB)/libcuda.so
	mkdir -p $(@D)
	$(call cc,$*) -shared -fPIC -fno-builtin -Wl,-soname,libcuda.so.1 -o $@ $(CUDA_STUB)/stub.c

# $(call gpu_program,ARCHITECTURE,FILE,TAG,PACKAGE) builds a program in C and Go. For this host's architecture it has the
# environment of the target cuda: with the same flags of the C compiler and linker, Go compiles most packages only once.
# For other architectures the linker does not warn about libraries of this host that it skips.
gpu_env = $(if $(filter $(1),$(HOSTARCH)),$(call cuda_env,$(CUDA_DIR)),$(cross_env))
cross_env = CGO_ENABLED=1 GOARCH=$(1) CC=$(call cc,$(1)) CGO_CFLAGS="$(call cuda_cflags,$(CUDA_DIR))" \
  CGO_LDFLAGS="-L$(CUDA_STUB)/$(1) -Wl,--no-warn-search-mismatch"
gpu_program = $(call gpu_env,$(1)) $(GO) build -tags $(3) -trimpath -ldflags '-s -w' -o $(2) $(4)

cuda-arm64: cuda-toolkit $(CUDA_STUB)/arm64/libcuda.so ## the GPU programs for arm64 hosts
	$(call gpu_program,arm64,$(BINDIR)/arm64/epbench-cuda,cuda,./cmd/epbench-cuda)
	$(call gpu_program,arm64,$(BINDIR)/arm64/epbench-compile,nvrtc,./cmd/epbench-compile)

release: release-amd64 release-arm64 ## dist/: an archive for each architecture, and SHA256SUMS
	cd $(DIST) && sha256sum epbench-$(VERSION)-linux-*.tar.gz > SHA256SUMS && cat SHA256SUMS

# A static pattern rule, because make looks for no implicit rule for phony targets.
release-amd64 release-arm64: release-%: cuda-toolkit $(CUDA_STUB)/%/libcuda.so
	rm -rf $(DIST)/epbench-$(VERSION)-linux-$* && mkdir -p $(DIST)/epbench-$(VERSION)-linux-$*/completions
	CGO_ENABLED=0 GOARCH=$* $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(DIST)/epbench-$(VERSION)-linux-$*/epbench ./cmd/epbench
	$(call gpu_program,$*,$(DIST)/epbench-$(VERSION)-linux-$*/epbench-cuda,cuda,./cmd/epbench-cuda)
	$(call gpu_program,$*,$(DIST)/epbench-$(VERSION)-linux-$*/epbench-compile,nvrtc,./cmd/epbench-compile)
	CGO_ENABLED=0 $(GO) run -tags man ./cmd/epbench man $(DIST)/epbench-$(VERSION)-linux-$*/man/man1
	for s in bash zsh fish; do CGO_ENABLED=0 $(GO) run -tags man ./cmd/epbench completion $$s > $(DIST)/epbench-$(VERSION)-linux-$*/completions/epbench.$$s || exit 1; done
	cp LICENSE README.md docs/host.md $(DIST)/epbench-$(VERSION)-linux-$*/
	tar -C $(DIST) --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf $(DIST)/epbench-$(VERSION)-linux-$*.tar.gz epbench-$(VERSION)-linux-$*
	rm -rf $(DIST)/epbench-$(VERSION)-linux-$*
