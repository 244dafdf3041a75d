#!/bin/bash
# What the layouts must show on 2 GPUs, from the repository's root, after
# `make layouts-gpu` on a host with a compiler. Every step has a time limit; the table at
# the end says what passed. $OUT keeps what the steps printed, and the runs.
#
#   native/epcomm/run-layouts.sh verify   the oracle over every layout, PART of the stress level
#   native/epcomm/run-layouts.sh deepep   DeepEP's own tests against epcomm.deepep
#   native/epcomm/run-layouts.sh speed    a short search of every layout, then 24 SMs
#   native/epcomm/run-layouts.sh loop     8 ranks on these GPUs, stress level
#   native/epcomm/run-layouts.sh decode   58 layers in a CUDA graph, with DeepEP and with ours
#   native/epcomm/run-layouts.sh all      verify, deepep, speed: about 4 minutes
#
# DEEPEP_TESTS is a folder with DeepEP's test_intranode.py, test_low_latency.py and what
# they import, default .peers/DeepEP/tests (v1.2.1). SEEDS, TOKENS, LL_TOKENS, LL_ARGS, PART,
# BUDGET, DTYPES and VERIFY_SECONDS change how much is run; LIMIT (default 560) is when
# the script stops starting steps, in seconds. `decode` takes DeepEP from SITE (default
# /tmp/peers-site), where native/python/workers/run-gpu.sh builds it, and leaves it out
# where there is none; DECODE_TOKENS and DECODE_ARGS change what it runs.
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/layouts} limit=${LIMIT:-560} part=${PART:-1/16}
tests=$(cd "${DEEPEP_TESTS:-.peers/DeepEP/tests}" 2> /dev/null && pwd)
mkdir -p "$out"
test ! -f bin/layouts-gpu.tar.xz || test -x bin/epbench-cuda || python3 -m tarfile -e bin/layouts-gpu.tar.xz bin || exit 1
export EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache} EPCOMM_LIBRARY=$PWD/bin/epcomm/libepcomm.so EPCOMM_DEADLINE=20
export EPCOMM_PACKS=$PWD/bin/packs/layouts EPCOMM_CACHE=${EPCOMM_CACHE:-/tmp/epcomm-cache} EPBENCH_PROGRAM=$PWD/bin/epbench
export PYTHONPATH=$PWD/native/python/epcomm/src:$PWD/native/python/epcomm/shim:$PYTHONPATH PATH=$PWD/bin:$PATH
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 GLOO_SOCKET_IFNAME=lo
wheels='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/libnvrtc.so*", recursive=True)})'
for d in /usr/local/cuda/lib64 $(python3 -c "$wheels" 2> /dev/null); do
  test -n "$EPBENCH_NVRTC" || { ls "$d"/libnvrtc.so* > /dev/null 2>&1 && export EPBENCH_NVRTC=$d; }
done
table=""

# step LIMIT NAME PATTERN COMMAND...: runs a command; its last line with PATTERN goes
# into the table.
step() {
  most=$1 name=$2 pattern=$3
  shift 3
  start=$SECONDS
  left=$((limit - SECONDS))
  if [ $left -lt 10 ]; then
    table+=$(printf '%-28s %s' "$name" "FAILED: no time left")$'\n'
    return
  fi
  timeout -s INT -k 10 $((most < left ? most : left)) "$@" > "$out/$name.txt" 2>&1
  code=$? word=ok
  test $code = 0 || word="FAILED ($code)"
  table+=$(printf '%-28s %-12s %4ss  %.100s' "$name" "$word" $((SECONDS - start)) "$(grep -E "$pattern" "$out/$name.txt" | tail -1)")$'\n'
  test $code = 0 || { echo "---- $name"; tail -25 "$out/$name.txt"; }
}

# What is cut off by the time limit has printed its table by then: 130 is no failure of an
# answer. A wrong answer is named in it.
verify() {
  for layout in rank rank:packed masked expert:128; do
    step "${VERIFY_SECONDS:-25}" "verify-${layout/:/-}" '^all ' epbench verify --backend cuda --stress --ranks 1,2 --only "layout=$layout" --part "$part"
    step 20 "back-to-back-${layout/:/-}" '^all ' epbench verify --backend cuda --ranks 2 --only "layout=$layout,special=back-to-back"
  done
}

loop() {
  for layout in rank rank:packed masked; do
    step "${VERIFY_SECONDS:-150}" "loopback-${layout/:/-}" '^all ' epbench verify --backend cuda:loopback --stress --ranks 8 --only "layout=$layout" --part "$part"
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

# search NAME ARGS...: a run directory, and its rows.
search() {
  name=$1
  shift
  rm -rf "${out:?}/$name"
  step $((${BUDGET:-25} + 45)) "$name" 'rows|configs' epbench sweep --backend cuda --model deepseek-v3 --ranks 2 --routing uniform \
    --budget "${BUDGET:-25}s" -o "$out/$name" "$@"
  cut -c1-190 "$out/$name.txt" | grep -E '^ *(row|[0-9]+) ' | head -40
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

# decode leaves the shim out, so that deep_ep is DeepEP's own.
decode() {
  for tokens in ${DECODE_TOKENS:-32 128}; do
    for dtype in ${DTYPES:-fp8 bf16}; do
      step 150 "decode-$tokens-$dtype" '^epcomm ' env PYTHONPATH="${SITE:-/tmp/peers-site}:$PWD/native/python/epcomm/src" EPCOMM_DEADLINE=60 \
        NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo python3 -m torch.distributed.run --standalone --nproc-per-node "${RANKS:-2}" \
        native/epcomm/decode_loop.py --tokens "$tokens" --dtype "$dtype" --json "$out/decode-$tokens-$dtype.json" ${DECODE_ARGS:-}
      grep -E ' step |differs|left out' "$out/decode-$tokens-$dtype.txt"
    done
  done
}

nvidia-smi -L
for step in ${*:-all}; do
  case $step in
    all) verify; deepep; speed ;;
    verify | deepep | speed | loop | decode) $step ;;
    *) echo "verify, deepep, speed, loop, decode or all"; exit 2 ;;
  esac
done
printf '%s' "$table"
! grep -q FAILED <<< "$table"
