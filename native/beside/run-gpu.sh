#!/bin/bash
# What communication costs the compute beside it, on 2 GPUs in one call of at most five
# minutes, or eight with DeepEP. From the repository's root, after `make build cuda` on a
# host with a compiler; the GPU host needs cuBLASLt of a toolkit or a wheel. $OUT keeps
# runs and texts. DeepEP takes part where PEERS (default .peers) has DeepEP v1.2.1 as
# DeepEP/: `all` builds it in the background, see native/python/workers/run-gpu.sh.
#
#   native/beside/run-gpu.sh all                     both models
#   native/beside/run-gpu.sh model NAME [TOKENS]     one model: searches, what the wrong config costs
#   native/beside/run-gpu.sh step NAME [TOKENS]      decode steps, from the searches of `model`
#   native/beside/run-gpu.sh explain NAME [TOKENS]   why the product slows down
#   native/beside/run-gpu.sh long NAME [TOKENS]      the same configs beside one long product
#   native/beside/run-gpu.sh deepep NAME [TOKENS]    DeepEP beside the same products, and a table
#                                                    of it and ours, from the runs of `model`
#   native/beside/run-gpu.sh deepep-step NAME [TOKENS]  its low latency in decode steps
#
# LIMIT (default 570) is when the script ends, in seconds: nothing begins that has no time.
cd "$(dirname "$0")/../.." || exit 1
# Programs that came packed, unless newer ones lie there.
test ! -f bin/peers-gpu.tar.xz || test bin/epbench -nt bin/peers-gpu.tar.xz ||
  { python3 -m tarfile -e bin/peers-gpu.tar.xz bin && touch bin/epbench bin/epbench-cuda; } || exit 1
out=${OUT:-/tmp/epbench-beside}
mkdir -p "$out"
export PATH=$PWD/bin:$PATH EPBENCH_CACHE=${EPBENCH_CACHE:-$out/cache}
wheels='import glob, os
try:
    import nvidia
    print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/PATTERN", recursive=True)})
except ImportError: pass'
find_library() { # PATTERN: the first folder that has such a file
  for d in /usr/local/cuda/lib64 $(python3 -c "${wheels/PATTERN/$1}" 2> /dev/null); do
    ls "$d"/$1 > /dev/null 2>&1 && { echo "$d"; return; }
  done
}
export EPBENCH_NVRTC=${EPBENCH_NVRTC:-$(find_library 'libnvrtc.so*')}
export EPBENCH_CUBLASLT=${EPBENCH_CUBLASLT:-$(find_library 'libcublasLt.so*')}
backend=${BACKEND:-cuda} ranks=${RANKS:-2} dtype=${DTYPE:-fp8}
# Seconds for the searches of one token count, rounds of a comparison, and the band: a cost
# is a difference of two times and has the noise of both.
each=${EACH:-4} rounds=${ROUNDS:-40} band=${BAND:-5%}
end=${LIMIT:-570}

# step LIMIT NAME COMMAND...: runs a command and shows how it ended. A killed one takes 10
# seconds more.
table=""
step() {
  local limit=$1 name=$2 start=$SECONDS code word left=$((end - SECONDS - 10))
  shift 2
  if [ "$left" -lt 10 ]; then
    table+=$(printf '%-44s %s' "$name" "no time left")$'\n'
    return 1
  fi
  limit=$((limit < left ? limit : left))
  timeout -s INT -k 10 "$limit" "$@" > "$out/$name.txt" 2> "$out/$name.err"
  code=$? word=ok
  test $code = 0 || word="ended with $code"
  table+=$(printf '%-44s %-16s %4ss' "$name" "$word" $((SECONDS - start)))$'\n'
  echo "---- $name"
  cat "$out/$name.txt"
  test $code = 0 || tail -5 "$out/$name.err"
}

shape() { echo --backend "$backend" --ranks "$ranks" --model "$1" --tokens "$2" --dtype "$dtype" --routing uniform $EXTRA; }
count() { tr ',' '\n' <<< "$1" | wc -l; }

# Three searches: alone, beside the model's products, where what is fastest alone is the
# table in use, and there of split phases only. Then what each costs in the place of
# another, in the same rounds.
model() {
  local name=$1 tokens=${2:-32,128,1024,4096} common seconds search compare in_use=""
  common=$(shape "$name" "$tokens") seconds=$(($(count "$tokens") * each))
  search="epbench sweep $common --op pair --band $band"
  compare="epbench bench $common --rounds $rounds --over $out/$name-alone"
  step $((seconds + 40)) "$name.alone" $search --budget ${seconds}s -o "$out/$name-alone"
  test ! -s "$out/$name-alone/table.json" || in_use="--table $out/$name-alone"
  step $((2 * seconds + 60)) "$name.beside" $search --budget $((2 * seconds))s --beside gemm $in_use -o "$out/$name-beside"
  step $((seconds + 60)) "$name.split" $search --budget ${seconds}s --beside gemm --kernel dispatch_ll_split,combine_ll_split -o "$out/$name-split"
  rm -rf "${out:?}/$name-beside-for-alone" "$out/$name-split-for-alone"
  step 60 "$name.beside-for-alone" $compare --op pair,dispatch,combine --beside gemm --table "$out/$name-beside" -o "$out/$name-beside-for-alone"
  step 60 "$name.split-for-alone" $compare --op pair --beside gemm --table "$out/$name-split" -o "$out/$name-split-for-alone"
  step 40 "$name.alone-where-alone" $compare --op pair --table "$out/$name-beside"
  step 20 "$name.pareto" epbench plot "$out/$name-beside" --kind pareto --beside -o "$out/plots-$name"
}

# A layer of two micro-batches, of so many tokens each: `both` is its time, `product`
# its products alone.
steps() {
  local common compare
  common=$(shape "$1" "${2:-32,128}")
  compare="epbench bench $common --op pair --beside step --rounds $rounds --over $out/$1-alone"
  rm -rf "${out:?}/$1-step-beside" "$out/$1-step-split"
  step 60 "$1.step.beside-for-alone" $compare --table "$out/$1-beside" -o "$out/$1-step-beside"
  step 60 "$1.step.split-for-alone" $compare --table "$out/$1-split" -o "$out/$1-step-split"
}

# On all SMs as the table has it, and on few, where the product runs at the same time.
explain() {
  local common
  common="$(shape "$1" "${2:-128,4096}") --op dispatch --beside gemm --rounds 20 --explain"
  step 60 "$1.explain" epbench bench $common --table "$out/$1-alone"
  step 60 "$1.explain-few" epbench bench $common --config dispatch_ll:sms=32
}

# Beside one product of many experts' size in one launch: a call cannot slip in where a
# launch ends, as it can beside shares of a few experts.
long() {
  local common size=16,131072,7168
  test "$1" != qwen3-30b-a3b || size=16,98304,2048
  common=$(shape "$1" "${2:-32,128}")
  rm -rf "${out:?}/$1-long"
  step 60 "$1.long" epbench bench $common --op pair,dispatch --beside "gemm:$size,$dtype" --rounds "$rounds" \
    --table "$out/$1-beside" --over "$out/$1-alone" -o "$out/$1-long"
}

# explain_once explains a model unless that is done.
explained=" "
explain_once() {
  case $explained in *" $1 "*) return ;; esac
  explained+="$1 "
  explain "$1"
}

# The workers of DeepEP, one process a GPU. NVLink multicast stays off; the low-latency
# kernels start NVSHMEM: one host, no network.
peers=${PEERS:-$PWD/.peers} site=${SITE:-/tmp/peers-site}
export PYTHONPATH=$site:$PYTHONPATH NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 NCCL_DEBUG=WARN
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo GLOO_SOCKET_IFNAME=lo
deepep="launch:${WORKER:-python3 -m torch.distributed.run --standalone --nproc-per-node $ranks native/python/workers/worker.py} deepep"

# build_deepep starts a build that leaves the machine to what is measured meanwhile.
building=""
build_deepep() {
  test -z "$building$WORKER" || return 0
  OUT=$out/peers PEERS=$peers SITE=$site nice -n 19 native/python/workers/run-gpu.sh build > "$out/build-deepep.txt" 2>&1 &
  building=$!
}

# has_deepep waits for the build and says whether it came to something, once.
ready=$WORKER
has_deepep() {
  test -z "$ready" || { test "$ready" != no; return; }
  build_deepep
  while kill -0 "$building" 2> /dev/null && [ $SECONDS -lt $((end - 30)) ]; do sleep 1; done
  table+=$(printf '%-44s %-16s %4ss' "DeepEP's build waited for" "until" $SECONDS)$'\n'
  ready=no
  if python3 -c 'import torch, deep_ep' 2> "$out/import-deepep.txt"; then
    ready=yes
    same_products
    return 0
  fi
  table+="DeepEP: cannot be imported, see $out/build-deepep.txt"$'\n'
  tail -n 5 "$out/build-deepep.txt" "$out/import-deepep.txt"
  return 1
}

# same_products builds the code that plans and launches our products for DeepEP's worker,
# once. Where that fails its products are PyTorch's: FP8 experts are then a kernel each.
same_products() {
  test -z "$EPBENCH_PRODUCT" || return 0
  export EPBENCH_PRODUCT=$out/libproduct.so
  { cc -O2 -shared -fPIC -o "$EPBENCH_PRODUCT" native/shim/ep_product.c -ldl &&
    PYTHONPATH=native/python/workers:$PYTHONPATH timeout 60 python3 -m harness.lt; } > "$out/product.txt" 2>&1 && return 0
  EPBENCH_PRODUCT=""
  table+="DeepEP beside PyTorch's products: ours failed, see $out/product.txt"$'\n'
  tail -n 5 "$out/product.txt"
}

# those CONDITION LIST: what of a comma-separated list meets a condition of awk.
those() { tr ',' '\n' <<< "$2" | awk "$1" | paste -sd,; }

# deepep_bench LIMIT NAME MODEL TOKENS MODE ARGS...: its worker in a mode, pairs.
deepep_bench() {
  local limit=$1 name=$2 model=$3 tokens=$4 mode=$5
  shift 5
  rm -rf "${out:?}/$name"
  step "$limit" "$name" epbench bench --backend "$deepep $mode" --ranks "$ranks" --model "$model" --tokens "$tokens" \
    --dtype "$dtype" --routing uniform --op pair --rounds "${DEEPEP_ROUNDS:-30}" $EXTRA -o "$out/$name" "$@"
}

# The normal kernels with 24 SMs, as engines set them, and with DeepEP's own 20; the
# low-latency ones with hooks, and fused. The normal kernels are for many tokens.
deepep() {
  local name=$1 tokens=${2:-32,128,1024,4096} few many runs="" run
  has_deepep || return 1
  few=$(those '$1 <= 128' "$tokens") many=$(those '$1 > 32' "$tokens")
  test -z "$few" || deepep_bench 75 "$name-deepep-ll" "$name" "$few" ll --layout masked --max-tokens 128 --beside gemm --config "dispatch.hook=1 combine.hook=1"
  test -z "$many" || deepep_bench 90 "$name-deepep" "$name" "$many" normal \
    --layout rank:packed --beside gemm --config "dispatch.sms=24 combine.sms=24"
  for run in "$out/$name-beside-for-alone" "$out/$name-split-for-alone" "$out/$name-deepep" "$out/$name-deepep-ll"; do
    test ! -s "$run/trials.jsonl" || runs+=" $run"
  done
  step 20 "$name.libraries-beside" epbench report --only beside --no-html --op pair --width 220 $runs
}

deepep_steps() {
  has_deepep || return 1
  deepep_bench 75 "$1-deepep-ll-step" "$1" "${2:-32,128}" ll --layout masked --max-tokens 128 --beside step --config "dispatch.hook=1 combine.hook=1"
}

case ${1:-all} in
  all)
    nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
    test ! -d "$peers/DeepEP" || build_deepep
    for m in deepseek-v3 qwen3-30b-a3b; do
      model $m
      steps $m
    done
    for m in deepseek-v3 qwen3-30b-a3b; do # DeepEP's build takes about six minutes
      ! kill -0 "${building:-none}" 2> /dev/null || explain_once $m
    done
    for m in deepseek-v3 qwen3-30b-a3b; do
      test -z "$building" || deepep $m
    done
    for m in deepseek-v3 qwen3-30b-a3b; do
      test -z "$building" || deepep_steps $m
    done
    for m in deepseek-v3 qwen3-30b-a3b; do # last: they may go without, where time runs out
      explain_once $m
      long $m
    done ;;
  model) model "$2" "$3" ;;
  step) steps "$2" "$3" ;;
  explain) explain "$2" "$3" ;;
  long) long "$2" "$3" ;;
  deepep) deepep "$2" "$3" ;;
  deepep-step) deepep_steps "$2" "$3" ;;
  *) echo "all, model, step, explain, long, deepep or deepep-step"; exit 2 ;;
esac
echo
printf '%s' "$table"
du -sh "$out" | cut -f1
