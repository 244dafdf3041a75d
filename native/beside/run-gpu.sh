#!/bin/bash
# Measures on 2 GPUs how much communication slows down a matrix product that runs beside it. Run this script from the
# repository's root, after `make peers-gpu`. It needs cuBLASLt. native/steps.sh explains OUT and LIMIT.
#
#   native/beside/run-gpu.sh all                       runs the next four commands for two models, in 10 minutes
#   native/beside/run-gpu.sh model NAME [TOKENS]       searches without products, then beside them; compares the winners
#   native/beside/run-gpu.sh step NAME [TOKENS]        measures a decode step of two micro-batches
#   native/beside/run-gpu.sh explain NAME [TOKENS]     measures why the product slows down
#   native/beside/run-gpu.sh long NAME [TOKENS]        measures calls beside a product that is one long launch
#   native/beside/run-gpu.sh deepep NAME [TOKENS]      measures DeepEP beside the same products
#
# Run model first: the other commands use its results.
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
unpack bin/peers-gpu.tar.xz bin epbench || exit 1
export PATH=$PWD/bin:$PATH EPBENCH_CUBLASLT=${EPBENCH_CUBLASLT:-$(library_folder 'libcublasLt.so*')}
ranks=${RANKS:-2} dtype=${DTYPE:-fp8}
# EACH: seconds of search for each token count. ROUNDS: rounds of a comparison. BAND: a smaller difference does not
# count.
each=${EACH:-4} rounds=${ROUNDS:-40} band=${BAND:-5%}
accepted="0 4" # exit code 4: some rows are undecided

shape() { echo --ranks "$ranks" --model "$1" --tokens "$2" --dtype "$dtype" --routing uniform $EXTRA; }
ours() { echo --backend "${BACKEND:-cuda}" $(shape "$@"); }

# bench SECONDS NAME ARGS... runs epbench bench with the run directory $out/NAME.
bench() {
  rm -rf "${out:?}/$2"
  step "$1" "$2" '' epbench bench --rounds "$rounds" -o "$out/$2" "${@:3}" && cat "$out/$2.txt"
}

# model searches without a product, beside products, and beside products with mode=split. Then it compares the winners.
model() {
  local tokens=${2:-32,128,1024,4096} seconds search over
  seconds=$(($(tr ',' '\n' <<< "$tokens" | wc -l) * each))
  search="epbench sweep $(ours "$1" "$tokens") --op pair --band $band" over="$(ours "$1" "$tokens") --over $out/$1-alone"
  step $((seconds + 40)) "$1.alone" 'rows' $search --budget ${seconds}s -o "$out/$1-alone"
  step $((2 * seconds + 60)) "$1.beside" 'rows' $search --budget $((2 * seconds))s --beside gemm --table "$out/$1-alone" -o "$out/$1-beside"
  step $((seconds + 60)) "$1.split" 'rows' $search --budget ${seconds}s --beside gemm --kernel dispatch_ll,combine_ll --param mode=split -o "$out/$1-split"
  bench 60 "$1-beside-for-alone" $over --op pair,dispatch,combine --beside gemm --table "$out/$1-beside"
  bench 60 "$1-split-for-alone" $over --op pair --beside gemm --table "$out/$1-split"
  bench 40 "$1-alone-where-alone" $over --op pair --table "$out/$1-beside"
}

in_step() {
  local over
  over="$(ours "$1" "${2:-32,128}") --op pair --beside step --over $out/$1-alone"
  bench 60 "$1-step-beside" $over --table "$out/$1-beside"
  bench 60 "$1-step-split" $over --table "$out/$1-split"
}

# explain measures the table's config, and a config with 32 SMs.
explain() {
  local common
  common="$(ours "$1" "${2:-128,4096}") --op dispatch --beside gemm --explain"
  bench 60 "$1-explain" $common --table "$out/$1-alone"
  bench 60 "$1-explain-few" $common --config dispatch_ll:sms=32
}

long() {
  local size=16,131072,7168
  test "$1" != qwen3-30b-a3b || size=16,98304,2048
  bench 60 "$1-long" $(ours "$1" "${2:-32,128}") --op pair,dispatch --beside "gemm:$size,$dtype" --table "$out/$1-beside" --over "$out/$1-alone"
}

deepep() {
  local worker="launch:python3 -m torch.distributed.run --standalone --nproc-per-node $ranks native/python/workers/worker.py deepep" beside="--op pair --beside gemm"
  python3 -c 'import deep_ep' || exit 1
  export EPBENCH_PRODUCT=$out/libproduct.so
  cc -O2 -shared -fPIC -o "$EPBENCH_PRODUCT" native/shim/ep_product.c -ldl || exit 1
  bench 75 "$1-deepep-ll" --backend "$worker ll" $(shape "$1" "${2:-32,128}") $beside --layout masked --max-tokens 128 --config "dispatch.hook=1 combine.hook=1"
  bench 90 "$1-deepep" --backend "$worker normal" $(shape "$1" "${2:-128,1024,4096}") $beside --layout rank:packed --config "dispatch.sms=24 combine.sms=24"
  step 20 "$1.libraries" '' epbench report --only beside --no-html --op pair --width 220 "$out/$1"-{beside-for-alone,split-for-alone,deepep-ll,deepep} && cat "$out/$1.libraries.txt"
}

case ${1:-all} in
  all) for m in deepseek-v3 qwen3-30b-a3b; do model $m; in_step $m; explain $m; long $m; done ;;
  step) in_step "$2" "$3" ;;
  model | explain | long | deepep) "$@" ;;
  *) echo "all, model, step, explain, long or deepep"; exit 2 ;;
esac
finish
