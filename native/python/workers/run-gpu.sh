#!/bin/bash
# Compares epbench's kernels with other libraries on the GPUs of one host. Run it from the repository's root, after
# `make peers-gpu` on a host with a compiler. The libraries must be installed as Python packages. sgl-deep-ep contains
# DeepEP V1. Since version 0.1.1 it also contains V2. flashinfer-python contains FlashInfer. deepep2 is DeepEP V2 in
# layout rank:packed. deepep2-expert and deepep2-expert:128 are V2 in layouts expert and expert:128. PyTorch must
# load the NCCL with which V2 was built.
#
#   run-gpu.sh sweep     tunes every library on each of MODELS, with uniform and with skewed routing
#   run-gpu.sh turns     measures again the configs that the sweeps chose; the libraries take turns
#   run-gpu.sh exports   loads the exported configs into DeepEP, and times them
#
# The script writes the runs, tables and pictures to OUT. If OUT is the folder of an earlier start on the same GPUs,
# the script resumes sweeps. LIBRARIES names the libraries. epbench and epbench-LAYOUT are epbench's own kernels.
# NAME@SMS allows a library at most SMS SMs. MODELS, TOKENS, LL_TOKENS, ROUTING, OPS, DTYPE, BAND, SECONDS_EACH,
# SKEW_SECONDS (0: only uniform routing), TURNS, COPIES, WAYS and SWEEP_FLAGS change what is measured. LAUNCHER starts
# the ranks; the default is torchrun, and "examples/workers/ranks.sh 2 python3" starts some seconds faster.
cd "$(dirname "$0")/../../.." || exit 1
. native/steps.sh
unpack bin/peers-gpu.tar.xz bin epbench || exit 1
export PATH=$PWD/bin:$PATH FLASHINFER_CUDA_ARCH_LIST=${FLASHINFER_CUDA_ARCH_LIST:-9.0a}
ranks=${RANKS:-2} dtype=${DTYPE:-bf16} accepted="0 4"
worker="launch:${LAUNCHER:-python3 -m torch.distributed.run --standalone --nproc-per-node $ranks} native/python/workers/worker.py"
libraries=${LIBRARIES:-deepep nccl flashinfer epbench epbench-rank deepep-ll}

backend() {
  case ${1%@*} in
    deepep-ll) echo "$worker deepep ll" ;;
    nccl-counts) echo "$worker nccl counts" ;;
    deepep2 | deepep2-expert*) echo "$worker deepep2" ;;
    deepep2-counts) echo "$worker deepep2 counts" ;;
    deepep | flashinfer | nccl) echo "$worker ${1%@*}" ;;
    epbench | epbench-*) echo "${BACKEND:-cuda}" ;;
    *) echo "unknown library $1" >&2; exit 2 ;;
  esac
}

# flags NAME[@SMS] prints the flags for the sweep of library NAME.
flags() {
  local name=${1%@*} tokens="--tokens ${TOKENS:-1,8,128,1024,4096} --max-tokens ${MAX_TOKENS:-4096}"
  case $name in deepep-ll | epbench-masked) tokens="--tokens ${LL_TOKENS:-1,8,32,128} --max-tokens 128" ;; esac
  echo "$tokens"
  test "$name" = "${name#epbench-}" || echo "--layout ${name#epbench-}"
  case $name in deepep2-expert*) echo "--layout ${name#deepep2-}" ;; deepep2*) echo "--layout rank:packed" ;; esac
  # In layout rank the libraries take tokens that were cast before, so epbench must take such tokens too.
  case $dtype:$name in fp8:epbench-rank*) echo "--param input=fp8" ;; esac
  test "$name" = "$1" || echo "--max-sms ${1#*@}"
}

# tuned SECONDS NAME LIBRARY MODEL ROUTING makes or resumes the sweep in $out/NAME.
tuned() {
  local run=$out/$2
  if test -s "$run/trials.jsonl"; then
    step $(($1 + 60)) "$2" 'rows' epbench sweep --resume "$run"
  else
    step $(($1 + 60)) "$2" 'rows' epbench sweep --backend "$(backend "$3")" --ranks "$ranks" --model "$4" --routing "$5" --op "${OPS:-dispatch,combine,pair}" \
      --dtype "$dtype" --band "${BAND:-2%}" --budget "${1}s" $(flags "$3") ${SWEEP_FLAGS:-} -o "$run"
  fi
}

sweep() {
  # FlashInfer is compiled here, because a worker that compiles would not answer epbench in time.
  [[ " $libraries " != *" flashinfer "* ]] || step 500 flashinfer-compiles '' python3 -c 'from flashinfer.jit.comm import gen_moe_alltoall_module as g; g("legacy").build_and_load()'
  for model in ${MODELS:-deepseek-v3}; do
    for l in $libraries; do
      tuned "${SECONDS_EACH:-40}" "$model-$l" "$l" "$model" uniform
      test "${SKEW_SECONDS:-12}" = 0 || tuned "${SKEW_SECONDS:-12}" "$model-$l-skew" "$l" "$model" "${ROUTING:-zipf:1.0,hotrank}"
    done
    choose "$model" $(runs "$model")
  done
}

runs() { for l in $libraries; do ls -d "$out/$1-$l" "$out/$1-$l-skew" 2> /dev/null; done; }

choose() {
  epbench table choose "${@:2}" 2>&1 | tee "$out/$1-choose.txt"
  epbench report --only libraries --no-html --format csv "${@:2}" > "$out/$1-libraries.csv"
}

turns() {
  for model in ${MODELS:-deepseek-v3}; do
    rm -rf "${out:?}/$model-turns"
    step 400 "$model-turns" '' epbench interleave --trust-command $(runs "$model") -o "$out/$model-turns" --turns "${TURNS:-40}"
    choose "$model-turns" "$out/$model-turns"/*/
  done
}

# exports measures DeepEP with configs from three sources: a shim, a JSON file of SGLang, and DeepEP's own map. WAYS
# selects among them. Times of the same config in two workers may differ by several per cent, so for each source
# COPIES workers run.
exports() {
  for model in ${MODELS:-deepseek-v3}; do
    from=$out/$model-deepep
    epbench table export --table "$from" --format sglang -o "$out/$model.json" > "$out/$model-json.txt" 2>&1
    epbench table export --table "$from" --format deepep-shim -o "$out/epbench_deepep.py" > "$out/$model-shim.txt" 2>&1
    for n in $(seq "${COPIES:-4}"); do
      for way in ${WAYS:-shim json map}; do
        step 60 "$model-own-$way-$n" '' epbench bench --backend "launch:env PYTHONPATH=$out:$PYTHONPATH EPBENCH_DEEPEP_CONFIG=$out/$model.json EPBENCH_DEEPEP_SHIM=epbench_deepep ${worker#launch:} deepep own" \
          --model "$model" --ranks "$ranks" --tokens "${TOKENS:-1,8,128,1024,4096}" --max-tokens "${MAX_TOKENS:-4096}" --routing uniform --op dispatch,combine --dtype "$dtype" \
          --over "$from" --config "deepep-own:by=$way" --rounds "${TURNS:-40}" -o "$out/$model-own-$way-$n"
      done
    done
    python3 native/python/workers/exported.py "$from" --says json="$out/$model-json.txt" --says shim="$out/$model-shim.txt" "$out/$model"-own-*/ | tee "$out/$model-exports.txt"
  done
}

for call in ${*:-sweep turns}; do
  case $call in
    sweep | turns | exports) $call ;;
    *) echo "give sweep, turns or exports, not $call"; exit 2 ;;
  esac
done
finish
