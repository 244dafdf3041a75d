# epbench. `make help` lists the targets.
BINDIR ?= bin
GO     ?= go
FUZZTIME ?= 10s
# PATIENCE is the time limit of one package's tests. It is long, because a busy host is slow, and still short enough
# to find a test that hangs.
PATIENCE ?= 30m

.PHONY: help build test test-all race race-build lint fuzz fuzz-night bench mutation mutation-native golden pages tables model engine-readers clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

build: ## bin/epbench, pure Go
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BINDIR)/epbench ./cmd/epbench

# PACKAGES is the number of packages that go test builds and runs at a time. It is larger than the number of
# processors, because some tests wait for processes, and others can run meanwhile.
PACKAGES = $(shell expr $$(nproc || getconf _NPROCESSORS_ONLN) + 2)

# -vet=off: the target lint runs go vet, and go test would run it again, also on imported packages. CGO_ENABLED=0: no
# quick test needs cgo, and without cgo the C parts of Go's own packages are not compiled.
test: ## the quick tests; they need Go and the repository
	CGO_ENABLED=0 $(GO) test -short -vet=off -p $(PACKAGES) -timeout $(PATIENCE) ./...

# The packages with the longest tests begin first, so that none of them ends long after the others.
LONGEST = ./tune/search/replay ./kernels/cuda/declare ./cmd/epbench
test-all: ## every test that needs no GPU, at full length: also device code on the emulator, studies and a browser
	$(GO) test -timeout $(PATIENCE) $(LONGEST) ./...

# CONCURRENT lists the packages that start goroutines, also in tests, and the packages whose tests call such
# packages. In other packages the race detector cannot find anything. kernels/cuda/declare is left out, because its
# parallel tests run device code in other processes, which the detector cannot see.
GOROUTINES = \bgo func\b|\bgo [a-z.]+[(]|[.]Go[(]|t[.]Parallel[(]
CONCURRENT = $(sort $(filter-out kernels/cuda/declare/,$(dir $(shell grep -rlE '$(GOROUTINES)' --include=*.go kernels tune reports workloads))) \
  kernels/ kernels/conform/ tune/sweep/ tune/sweep/measure/ tune/sweep/receipt/)
race-build: ## compile the packages of race; their tests are compiled by race
	CGO_ENABLED=1 $(GO) build -race $(addprefix ./,$(CONCURRENT))

# SEQUENTIAL matches tests of these packages that the detector makes ten times as slow. They read or make
# recordings in one goroutine, so the detector can find nothing. test and test-all run them.
SEQUENTIAL = ^(TestRecordingBombs|TestSchemasFitRecordings|TestLogBounds)$$
race: ## the tests of the concurrent packages under the race detector (lint has vetted them)
	CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout $(PATIENCE) -skip '$(SEQUENTIAL)' $(addprefix ./,$(CONCURRENT))

# With the tag man, vet reads all files that it reads without the tag, and one more.
lint: ## formatting, vet, module file
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet -tags man ./...
	$(GO) mod tidy -diff

fuzz: ## run every fuzz target for FUZZTIME and print its number of executions
	GO=$(GO) .ci/fuzz $(FUZZTIME)

fuzz-night: ## an hour of each fuzz target
	GO=$(GO) .ci/fuzz 1h

bench: ## time the CPU backend against a plain copy, look-ups in Go and C, and drawing of routings
	$(GO) test -run NONE -bench 'AgainstCopy|Parameters' -benchtime 1x ./kernels/cpu
	$(GO) test -run NONE -bench 'Resolve|Lookup' ./tune/table
	$(GO) test -run NONE -bench HotPath ./tune/table/export
	$(GO) test -run NONE -bench Route ./workloads

# MUTATED lists packages that take decisions or read files. Each entry includes the folders below it, except those
# that the options -E name.
MUTATED ?= tune/stat tune/record tune/search tune/sweep reports/peers reports/engines workloads kernels/worker kernels/cuda/pack
mutation: ## mutation tests of MUTATED, hours; needs gremlins v0.6.0 (github.com/go-gremlins/gremlins) on PATH
	@for p in $(MUTATED); do \
	  echo "== $$p"; GOFLAGS='-short -vet=off' gremlins unleash --workers 1 --timeout-coefficient 20 -S lt \
	    -E '^replay/' -E '^spacefile/' -E '^measure/' -E '^receipt/' ./$$p || exit 1; \
	done

# MUTATION holds options of native/mutation, for example MUTATION='-only call.c'.
mutation-native: ## put faults into C, Python and device code, one at a time, and print the faults that no test notices; about two hours
	$(GO) run ./native/mutation $(MUTATION) $(wildcard native/mutation/*.yaml)

golden: ## rewrite expected outputs; review the diff
	EPBENCH_UPDATE=1 $(GO) test ./cmd/epbench ./reports/... ./tune/table/... ./tune/record ./kernels/worker ./workloads

pages: ## rewrite the figures of README and docs from their recordings; review the diff
	EPBENCH_UPDATE=1 $(GO) test -run '^TestPages$$|^TestDocument$$' ./cmd/epbench ./docs/workloads

tables: build ## check that the embedded GPU tables, merged again from their runs, are the same
	@out=$$(mktemp -d) && testdata/archive/merge.sh $(BINDIR)/epbench $$out && \
	for t in h200x4 h200x2 h100x2; do cmp $$out/$$t.json tune/table/embedded/data/$$t.json || exit 1; done; rm -r $$out

# The model is fitted to runs of one generation of kernels on one kind of GPU, the H200. Runs on 2 H200 since 2026-11-23
# are left out: they have faster kernels than all runs on 4 GPUs, and one model does not fit both. Runs on 2 H100 are
# left out, because the H100 is another GPU.
model: build ## check that the model in testdata/models, fitted again to the recorded runs, is the same; takes minutes
	@out=$$(mktemp -d) && for a in testdata/archive/h200-*.tar.xz testdata/archive/h200x2-2026-11-22-libraries.tar.xz; do mkdir $$out/$$(basename $$a .tar.xz) && tar xf $$a -C $$out/$$(basename $$a .tar.xz) || exit 1; done && \
	$(BINDIR)/epbench model fit $$out testdata/runs -o $$out/h200.yaml && cmp $$out/h200.yaml testdata/models/h200.yaml && rm -r $$out

engine-readers: ## download the engines' own readers into .readers, for the tests of exports: three wheels, 90 MB
	python3 -m pip download -q --no-deps --only-binary=:all: -d .readers aiconfigurator-core==0.12.0 sglang==0.5.10 megatron-core==0.16.1

clean: ## remove the files that other targets made
	rm -rf $(BINDIR) gpu-bundle

-include native/cuda.mk
-include release.mk
-include native/python/wheels.mk
-include native/epcomm/epcomm.mk
