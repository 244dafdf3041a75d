#!/bin/bash
# Tests the layouts on 2 GPUs. Run `make layouts-gpu` first, on a host with a compiler.
#
#   native/epcomm/run-layouts.sh verify   runs PART (default 1/16) of epbench verify --stress for every layout
#   native/epcomm/run-layouts.sh deepep   runs DeepEP's own tests with epcomm.deepep in place of DeepEP
#   native/epcomm/run-layouts.sh speed    makes short searches of layouts rank, masked, and rank:packed with 24 SMs
#   native/epcomm/run-layouts.sh loop     runs verify with 8 ranks that share these GPUs
#   native/epcomm/run-layouts.sh all      runs verify, deepep and speed, about 4 minutes
#
# DEEPEP_TESTS is a folder of DeepEP's tests; the default is .peers/DeepEP/tests (v1.2.1). SEEDS, TOKENS, LL_TOKENS,
# LL_ARGS, PART, BUDGET, DTYPES and VERIFY_SECONDS change which cases run, and for how long.
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
unpack bin/layouts-gpu.tar.xz bin epbench || exit 1
part=${PART:-1/16} tests=$(cd "${DEEPEP_TESTS:-.peers/DeepEP/tests}" 2> /dev/null && pwd)
export EPCOMM_LIBRARY=$PWD/bin/epcomm/libepcomm.so EPCOMM_DEADLINE=20 EPBENCH_PROGRAM=$PWD/bin/epbench
export EPCOMM_PACKS=$PWD/bin/packs/layouts EPCOMM_CACHE=${EPCOMM_CACHE:-/tmp/epcomm-cache}
export PYTHONPATH=$PWD/native/python/epcomm/src:$PWD/native/python/epcomm/shim:$PYTHONPATH PATH=$PWD/bin:$PATH

# Exit status 130 means that the time limit interrupted the verification. It has printed its table all the same.
verify() {
  for layout in rank rank:packed masked expert:128; do
    accepted="0 130" step "${VERIFY_SECONDS:-25}" "verify-${layout/:/-}" '^all ' epbench verify --backend cuda --stress --ranks 1,2 --only "layout=$layout" --part "$part"
    accepted="0 130" step 20 "back-to-back-${layout/:/-}" '^all ' epbench verify --backend cuda --ranks 2 --only "layout=$layout,special=back-to-back"
  done
}

loop() {
  for layout in rank rank:packed masked; do
    accepted="0 130" step "${VERIFY_SECONDS:-150}" "loopback-${layout/:/-}" '^all ' epbench verify --backend cuda:loopback --stress --ranks 8 --only "layout=$layout" --part "$part"
  done
}

deepep() {
  test -n "$tests" || { echo "DEEPEP_TESTS: no folder with DeepEP's tests"; exit 2; }
  for seed in ${SEEDS:-0}; do
    export DEEPEP_TEST_SEED=$seed
    for n in ${TOKENS:-4096 128 1024}; do
      step 75 "intranode-$n-seed$seed" 'Best combine|passed|Error' env MASTER_PORT=$((8400 + SECONDS)) python3 "$tests/test_intranode.py" --num-processes 2 --num-tokens "$n"
    done
    for n in ${LL_TOKENS:-128}; do
      step 75 "low-latency-$n-seed$seed" 'bandwidth|Error' env MASTER_PORT=$((8400 + SECONDS)) DEEPEP_TEST_NAMES=1 python3 "$tests/test_low_latency.py" --num-processes 2 --num-tokens "$n" ${LL_ARGS:-}
    done
  done
  grep -hE 'Best |\[layout\]|avg_t|send/recv' "$out"/intranode-*.txt "$out"/low-latency-*.txt | sort | uniq | tail -40
}

# search NAME ARGS... runs a sweep into $out/NAME.
search() {
  rm -rf "${out:?}/$1"
  step $((${BUDGET:-25} + 45)) "$1" 'rows|configs' epbench sweep --backend cuda --model deepseek-v3 --ranks 2 --routing uniform \
    --budget "${BUDGET:-25}s" -o "$out/$1" "${@:2}"
  cut -c1-190 "$out/$1.txt" | grep -E '^ *(row|[0-9]+) ' | head -40
}

speed() {
  for dtype in ${DTYPES:-fp8 bf16}; do
    search "rank-$dtype" --layout rank --dtype "$dtype" --tokens 1,8,32,128,1024,4096 --op dispatch,combine,pair
  done
  search masked-fp8 --layout masked --dtype fp8 --tokens 1,8,32,128 --op dispatch,combine,pair --precision reduced
  for dtype in ${DTYPES:-fp8 bf16}; do
    BUDGET=12 search "packed-24-sms-$dtype" --layout rank:packed --dtype "$dtype" --tokens 1024,4096 --op dispatch,combine --max-sms 24
  done
}

nvidia-smi -L
for call in ${*:-all}; do
  case $call in
    all) verify; deepep; speed ;;
    verify | deepep | speed | loop) $call ;;
    *) echo "give verify, deepep, speed, loop or all"; exit 2 ;;
  esac
done
finish
