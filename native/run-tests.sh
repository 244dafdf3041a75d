#!/bin/sh
# Runs the GPU tests of this folder and writes what they print to results/.
#
#   ./run-tests.sh            conformance on 1, 2, 4, 8 GPUs as far as they go, single-GPU loopback, drills
#   ./run-tests.sh stress     every triple of the matrix on 1, 2, 4, 8 GPUs as far as they go, and 8 ranks on one GPU
#   ./run-tests.sh sanitize   compute-sanitizer memcheck and racecheck on small shapes, one GPU a test
#
# sanitize runs PARTS (8) processes side by side, each with its part of the cases, on all
# GPUs there are: a checked kernel is slow on the host, not on the GPU.
#
# Exit status 0 when everything passed.
cd "$(dirname "$0")" || exit 1
mkdir -p results
export EPBENCH_CACHE="${EPBENCH_CACHE:-$PWD/cache}"
status=0

step() {
  name=$1
  shift
  "$@" > "results/$name.txt" 2>&1
  said "$name" $?
}

# said NAME CODE prints what became of a step.
said() {
  if test "$2" = 0; then
    printf '%-28s ok\n' "$1"
  else
    printf '%-28s FAILED (results/%s.txt)\n' "$1" "$1"
    status=1
  fi
}

sanitizer() {
  for s in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer; do
    command -v "$s" && return
  done
}

# sanitize CHECK TESTS FLAGS...: every part in a process of its own; all must pass.
sanitize() {
  check=$1 tests=$2
  shift 2
  for i in $(seq "$parts"); do
    CUDA_VISIBLE_DEVICES=$((i % gpus)) EPBENCH_PART=$i/$parts "$tool" --tool "$check" "$@" --error-exitcode 1 --target-processes all \
      ./cuda.test -test.run "$tests" -test.v -test.timeout 30m > "results/$check-$i.txt" 2>&1 &
    eval "part_$i=$!"
  done
  for i in $(seq "$parts"); do
    eval "pid=\$part_$i"
    wait "$pid"
    said "$check-$i" $?
  done
}

info() {
  date -u
  uname -sr
  nvidia-smi -L
  nvidia-smi topo -m
  ./epbench-cuda info
}

if [ "$1" = sanitize ]; then
  tool=$(sanitizer)
  test -n "$tool" || { echo "compute-sanitizer is not installed"; exit 1; }
  gpus=$(nvidia-smi -L | wc -l) parts=${PARTS:-8}
  test "$gpus" -ge 1 || { echo "nvidia-smi names no GPU"; exit 1; }
  test "$parts" -ge 1 || { echo "PARTS: $parts; use 1 to 15, the problems of TestRaces"; exit 2; }
  trap 'kill $(jobs -p) 2> /dev/null; exit 130' INT TERM
  sanitize memcheck '^TestSanitize'
  # Racecheck knows barriers only. Warps of dispatch_ll_ids and dispatch_masked_ids wait for a
  # flag in shared memory, released and acquired, and all that follows it is reported:
  # docs/verification/h100.md.
  sanitize racecheck '^TestRaces' --kernel-name-exclude kernel_substring=_ids
  exit $status
fi

# each_count runs a step for each number of GPUs up to those there are.
each_count() {
  gpus=$(nvidia-smi -L | wc -l)
  for n in 1 2 4 8; do
    test "$n" -le "$gpus" || continue
    step "$1-$n" env CUDA_VISIBLE_DEVICES="$(seq -s , 0 $((n - 1)))" $2
  done
}

if [ "$1" = stress ]; then
  export EPBENCH_CUDA="$PWD/epbench-cuda"
  step stress-loopback env CUDA_VISIBLE_DEVICES=0 ./epbench verify --backend cuda:loopback --stress --ranks 1,2,4,8 --all
  each_count stress "./epbench verify --backend cuda --stress --all"
  exit $status
fi

step info info
step selftest ./epbench-cuda selftest --loopback
step loopback ./cuda.test -test.run '^Test(Session|Drill|Loopback)' -test.v -test.timeout 20m
each_count conformance "./cuda.test -test.run ^TestConformance -test.v -test.timeout 30m"
exit $status
