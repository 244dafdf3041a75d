#!/bin/bash
# Runs DeepEP's own tests on the emulated driver, with epcomm.deepep in place of DeepEP. $1 is the folder of the tests
# of DeepEP v1.2.1. $2 is the folder of libepcomm.so. DEEPEP_SOURCE may name a checkout of DeepEP V2.
tests=$1 programs=$2
LIMIT=${LIMIT:-3600} OUT=$programs/deepep
. native/steps.sh
python=$PWD/native/python/epcomm
test -f "$tests/test_low_latency.py" || { echo "DEEPEP_TESTS: $tests has no test_low_latency.py; name the folder tests of DeepEP v1.2.1"; exit 1; }
export PYTHONPATH="$python/tests/emulated:$python/shim:$python/src" EPCOMM_LIBRARY="$PWD/$programs/libepcomm.so" EPBENCH_PROGRAM="$PWD/$programs/../epbench"
export EPCOMM_MAX_TOKENS=64 EPCOMM_DEADLINE=60 DEEPEP_TEST_NAMES=1 OMP_NUM_THREADS=1
EPCOMM_CACHE=$(mktemp -d) && export EPCOMM_CACHE && trap 'rm -r "$EPCOMM_CACHE"' EXIT

tested() { step 600 "$*" '' env MASTER_PORT=$((8471 + steps)) python3 "$tests/$1.py" --num-processes 2 "${@:2}"; }

# With hidden size 512 the test fails with DeepEP itself too.
tested test_low_latency --num-tokens 16 --hidden 1024 --num-experts 16 --num-topk 4
tested test_low_latency --num-tokens 40 --hidden 1024 --num-experts 48 --num-topk 8
tested test_intranode --num-tokens 16 --hidden 512 --num-experts 16 --num-topk 4
tested test_intranode --num-tokens 64 --hidden 1024 --num-experts 48 --num-topk 9
if [ -n "$DEEPEP_SOURCE" ]; then
  tests=$DEEPEP_SOURCE/tests/elastic
  tested test_ep --skip-perf-test --num-tokens 16 --hidden 512 --num-experts 16 --num-topk 4
  tested test_ep --skip-perf-test --num-tokens 33 --hidden 1024 --num-experts 48 --num-topk 9 --masked-ratio 0.2 --do-cpu-sync 0 --test-first-only
fi
finish
