#!/bin/sh
# Runs the GPU tests of this folder and writes what they print to results/.
#
#   ./run-tests.sh            conformance on 1, 2, 4, 8 GPUs as far as they go, single-GPU loopback, drills
#   ./run-tests.sh stress     every triple of the matrix on 1, 2, 4, 8 GPUs as far as they go, and 8 ranks on one GPU
#   ./run-tests.sh sanitize   compute-sanitizer memcheck and racecheck on small shapes, one GPU
#
# Exit status 0 when everything passed.
cd "$(dirname "$0")" || exit 1
mkdir -p results
export EPBENCH_CACHE="${EPBENCH_CACHE:-$PWD/cache}"
status=0

step() {
  name=$1
  shift
  printf '%-28s ' "$name"
  if "$@" > "results/$name.txt" 2>&1; then
    echo ok
  else
    echo "FAILED (results/$name.txt)"
    status=1
  fi
}

sanitizer() {
  for s in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer; do
    command -v "$s" && return
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
  step memcheck "$tool" --tool memcheck --error-exitcode 1 --target-processes all \
    ./cuda.test -test.run '^TestSanitize' -test.v -test.timeout 30m
  step racecheck "$tool" --tool racecheck --error-exitcode 1 --target-processes all \
    ./cuda.test -test.run '^TestRaces' -test.v -test.timeout 30m
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
