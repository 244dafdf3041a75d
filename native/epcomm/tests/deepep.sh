#!/bin/sh
# DeepEP's own tests over epcomm.deepep, on the emulated driver: 2 ranks, sizes that a CPU
# can run, a minute in all. $1 is their folder, of DeepEP v1.2.1; $2 the folder with
# libepcomm.so. Exit status 0 when both passed.
tests=$1 out=$2
python=$(cd "$(dirname "$0")/../../python/epcomm" && pwd)
test -f "$tests/test_low_latency.py" || { echo "DEEPEP_TESTS: $tests has no test_low_latency.py; name the folder tests of DeepEP v1.2.1"; exit 1; }
cache=$(mktemp -d) && trap 'rm -r "$cache"' EXIT
export PYTHONPATH="$python/tests/emulated:$python/shim:$python/src" EPCOMM_LIBRARY="$PWD/$out/libepcomm.so" EPBENCH_PROGRAM="$PWD/$out/../epbench"
export EPCOMM_CACHE="$cache" EPCOMM_MAX_TOKENS=64 EPCOMM_DEADLINE=60 DEEPEP_TEST_NAMES=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
status=0

# step NAME PORT ARGS...
step() {
  name=$1 port=$2
  shift 2
  start=$(date +%s) word=ok
  MASTER_PORT=$port timeout 600 python3 "$tests/$name.py" --num-processes 2 "$@" > "$cache/said.txt" 2>&1 || { word=FAILED && status=1; }
  printf '%-60s %s, %ss\n' "$name $*" "$word" $(($(date +%s) - start))
  test $word = ok || cat "$cache/said.txt"
}

# UE8M0 scales are four to an int32: with 512 columns torch takes what the test makes
# contiguous for it already, with DeepEP too.
step test_low_latency 8471 --num-tokens 16 --hidden 1024 --num-experts 16 --num-topk 4
step test_low_latency 8472 --num-tokens 40 --hidden 1024 --num-experts 48 --num-topk 8
step test_intranode 8473 --num-tokens 16 --hidden 512 --num-experts 16 --num-topk 4
step test_intranode 8474 --num-tokens 64 --hidden 1024 --num-experts 48 --num-topk 9
exit $status
