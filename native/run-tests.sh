#!/bin/bash
# Runs the GPU tests in this folder. `make gpu-bundle` makes the folder. The tests write their output to results/.
#
#   ./run-tests.sh            conformance on as many of 1, 2, 4 and 8 GPUs as there are; tests that cause faults; 8 ranks on one GPU
#   ./run-tests.sh stress     every problem, routing and config of epbench verify --stress on 1, 2, 4 and 8 GPUs, and 8 ranks on one GPU
#   ./run-tests.sh sanitize   compute-sanitizer memcheck and racecheck on small shapes
#
# The sanitizer keeps the host busy and not the GPU. So sanitize divides the cases among PARTS processes, by default
# 8, which run at the same time on all GPUs. The exit status is 0 if everything passed.
cd "$(dirname "$0")" || exit 1
OUT=results LIMIT=${LIMIT:-14400} EPBENCH_CACHE=${EPBENCH_CACHE:-$PWD/cache}
. ./steps.sh
export EPBENCH_CUDA=$PWD/epbench-cuda
gpus=$(nvidia-smi -L | wc -l)

# sanitize CHECK TESTS FLAGS... runs TESTS under a check of the sanitizer, with a process for each part of the cases.
sanitize() {
  local check=$1 tests=$2 i pids=()
  shift 2
  for i in $(seq "$parts"); do
    CUDA_VISIBLE_DEVICES=$((i % gpus)) EPBENCH_PART=$i/$parts "$tool" --tool "$check" "$@" --error-exitcode 1 --target-processes all \
      ./cuda.test -test.run "$tests" -test.v -test.timeout 30m > "$out/$check-$i.txt" 2>&1 &
    pids+=($!)
  done
  for i in $(seq "$parts"); do
    wait "${pids[i - 1]}" && ended "$check-$i" ok || ended "$check-$i" FAILED
  done
}

each_count() {
  local name=$1 n
  shift
  for n in 1 2 4 8; do
    test $n -gt "$gpus" || step 3600 "$name-$n" '^all |^ok' env CUDA_VISIBLE_DEVICES="$(seq -s , 0 $((n - 1)))" "$@"
  done
}

case ${1:-all} in
  sanitize)
    tool=$(command -v compute-sanitizer /usr/local/cuda/bin/compute-sanitizer | head -n 1) parts=${PARTS:-8}
    test -n "$tool" || { echo "compute-sanitizer is not installed"; exit 1; }
    test "$gpus" -ge 1 || { echo "nvidia-smi names no GPU"; exit 1; }
    trap 'kill $(jobs -p) 2> /dev/null; exit 130' INT TERM
    sanitize memcheck '^TestSanitize'
    # Racecheck understands only __syncthreads and its like. It would report races in kernels whose names contain _ids,
    # which wait for a flag in shared memory, and in those with _team, which wait for mbarriers. So they are left out.
    # The race detector of the emulator understands both.
    sanitize racecheck '^TestRaces' --kernel-name-exclude kernel_substring=_ids --kernel-name-exclude kernel_substring=_team ;;
  stress)
    step 3600 stress-loopback '^all ' env CUDA_VISIBLE_DEVICES=0 ./epbench verify --backend cuda:loopback --stress --ranks 1,2,4,8 --all
    each_count stress ./epbench verify --backend cuda --stress --all ;;
  all)
    step 60 info '' sh -c 'date -u; uname -sr; nvidia-smi -L; nvidia-smi topo -m; ./epbench-cuda info'
    step 600 selftest '' ./epbench-cuda selftest --loopback
    step 1200 loopback '^ok' ./cuda.test -test.run '^Test(Session|Drill|Loopback)' -test.v -test.timeout 20m
    each_count conformance ./cuda.test -test.run ^TestConformance -test.v -test.timeout 30m ;;
  *) echo "run-tests.sh [stress|sanitize]"; exit 2 ;;
esac
finish
