#!/bin/bash
# What communication costs the compute beside it, on 2 GPUs in one call of at most five
# minutes. From the repository's root, after `make build cuda` on a host with a compiler;
# the GPU host needs cuBLASLt of a toolkit or a wheel. $OUT keeps runs and texts.
#
#   native/beside/run-gpu.sh all                     both models
#   native/beside/run-gpu.sh model NAME [TOKENS]     one model: searches, what the wrong config costs
#   native/beside/run-gpu.sh step NAME [TOKENS]      decode steps, from the searches of `model`
#   native/beside/run-gpu.sh explain NAME [TOKENS]   why the product slows down
cd "$(dirname "$0")/../.." || exit 1
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

# step LIMIT NAME COMMAND...: runs a command and shows how it ended.
table=""
step() {
  local limit=$1 name=$2 start=$SECONDS code word
  shift 2
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

# Three searches: alone, beside the model's products, and there of split phases only.
# Then what each costs in the place of another, in the same rounds.
split="dispatch_ll_split+combine_ll_split:dispatch.pdl=0"
model() {
  local name=$1 tokens=${2:-32,128,1024,4096} common seconds search compare
  common=$(shape "$name" "$tokens") seconds=$(($(count "$tokens") * each))
  search="epbench sweep $common --op pair --band $band"
  compare="epbench bench $common --op pair,dispatch,combine --rounds $rounds --over $out/$name-alone"
  step $((seconds + 40)) "$name.alone" $search --budget ${seconds}s -o "$out/$name-alone"
  step $((2 * seconds + 60)) "$name.beside" $search --budget $((2 * seconds))s --beside gemm -o "$out/$name-beside"
  step $((seconds + 60)) "$name.split" $search --budget ${seconds}s --beside gemm --kernel dispatch_ll_split,combine_ll_split -o "$out/$name-split"
  step 60 "$name.beside-for-alone" $compare --beside gemm --table "$out/$name-beside"
  step 60 "$name.split-for-alone" $compare --beside gemm --table "$out/$name-split"
  step 60 "$name.plain-split-for-alone" $compare --beside gemm --op pair --config "$split"
  step 40 "$name.alone-where-alone" $compare --table "$out/$name-beside"
  step 20 "$name.pareto" epbench plot "$out/$name-beside" --kind pareto --beside -o "$out/plots-$name"
}

# A layer of two micro-batches, of so many tokens each: `both` is its time, `product`
# its products alone.
steps() {
  local common compare
  common=$(shape "$1" "${2:-32,128}")
  compare="epbench bench $common --op pair --beside step --rounds $rounds --over $out/$1-alone"
  step 60 "$1.step.beside-for-alone" $compare --table "$out/$1-beside"
  step 60 "$1.step.split-for-alone" $compare --config "$split"
}

explain() {
  local common
  common=$(shape "$1" "${2:-128,4096}")
  step 60 "$1.explain" epbench bench $common --op dispatch --beside gemm --rounds 20 --table "$out/$1-alone" --explain
}

case ${1:-all} in
  all)
    nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
    for m in deepseek-v3 qwen3-30b-a3b; do
      model $m
      steps $m
      explain $m
    done ;;
  model) model "$2" "$3" ;;
  step) steps "$2" "$3" ;;
  explain) explain "$2" "$3" ;;
  *) echo "all, model, step or explain"; exit 2 ;;
esac
echo
printf '%s' "$table"
du -sh "$out" | cut -f1
