#!/bin/bash
# Peers and our kernels on the GPUs of one host, from the repository's root, after
# `make peers-gpu`, which leaves bin/peers-gpu.tar.xz. Nothing is fetched: PEERS (default
# .peers) holds DeepEP v1.2.1 as DeepEP/. $OUT keeps what was measured.
#
#   run-gpu.sh build          builds DeepEP into $SITE; one to three minutes
#   run-gpu.sh drill          every worker, one small search each: does it run?
#   run-gpu.sh sweep          all libraries, one model: about 6 minutes
#   run-gpu.sh exports RUN    a run's exports, loaded by DeepEP and timed again
#
# MODELS, TOKENS, LL_TOKENS, SKEW_TOKENS, ROUTING, OPS, DTYPE, BAND, SECONDS_EACH,
# SKEW_SECONDS and LIBRARIES change what a sweep does.
cd "$(dirname "$0")/../../.." || exit 1
peers=${PEERS:-$PWD/.peers} site=${SITE:-/tmp/peers-site} out=${OUT:-/tmp/peers-out}
ranks=${RANKS:-2}
mkdir -p "$out" "$site"
test -x bin/epbench || tar -xJf bin/peers-gpu.tar.xz -C bin || exit 1
export PYTHONPATH=$site:$PYTHONPATH PATH=$PWD/bin:$PATH EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache}
# NVLink multicast stays off. The low-latency kernels start NVSHMEM: one host, no network.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 NCCL_DEBUG=WARN
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo GLOO_SOCKET_IFNAME=lo
wheels='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/libnvrtc.so*", recursive=True)})'
for d in /usr/local/cuda/lib64 $(python3 -c "$wheels" 2> /dev/null); do
  test -n "$EPBENCH_NVRTC" || { ls "$d"/libnvrtc.so* > /dev/null 2>&1 && export EPBENCH_NVRTC=$d; }
done
# FlashInfer takes part where it can be imported; it compiles its kernel at first use.
fi=$(python3 -c 'import flashinfer; print("flashinfer")' 2> /dev/null)
worker="launch:python3 -m torch.distributed.run --standalone --nproc-per-node $ranks native/python/workers/worker.py"

build() {
  cuda=${CUDA_HOME:-/usr/local/cuda}
  rm -rf /tmp/DeepEP && cp -r "$peers/DeepEP" /tmp/DeepEP && cd /tmp/DeepEP || exit 1
  # Without InfiniBand there are no queue pairs: the low-latency kernels assert some, and
  # the buffer asks NVSHMEM for a transport that is not there.
  sed -i '/EP_DEVICE_ASSERT(ibgda_get_state()->num_rc_per_pe >= num_local_experts);/d' csrc/kernels/internode_ll.cu
  sed -i "s/os.environ\['NVSHMEM_IB_ENABLE_IBGDA'\] = '1'/os.environ['NVSHMEM_IB_ENABLE_IBGDA'] = '0'/" deep_ep/buffer.py
  CPATH=$cuda/include/cccl:$CPATH CUDA_HOME=$cuda TORCH_CUDA_ARCH_LIST=9.0 MAX_JOBS=16 \
    timeout 500 python3 setup.py -q build --build-lib "$site" > "$out/build.txt" 2>&1
  code=$?
  tail -3 "$out/build.txt"
  cd - > /dev/null || exit 1
  python3 -c 'import torch, deep_ep; print("DeepEP", deep_ep.__file__)' || code=1
  return $code
}

table=""
# one LIMIT NAME ARGS...: a sweep of LIMIT seconds at most into one run directory, $out/NAME
one() {
  limit=$1 name=$2
  shift 2
  start=$SECONDS
  rm -rf "${out:?}/$name"
  timeout -s INT -k 10 "$limit" epbench sweep -o "$out/$name" --ranks "$ranks" --band "${BAND:-2%}" "$@" > "$out/$name.txt" 2>&1
  code=$?
  word=ok
  test $code = 0 || test $code = 4 || word="FAILED ($code)"
  table+=$(printf '%-28s %-12s %4ss' "$name" "$word" $((SECONDS - start)))$'\n'
  test "$word" = ok || { echo "---- $name"; tail -15 "$out/$name.txt"; }
}

# library NAME: its backend.
library() {
  case $1 in
    deepep) echo "$worker deepep" ;;
    deepep-ll) echo "$worker deepep ll" ;;
    flashinfer) echo "$worker flashinfer" ;;
    nccl) echo "$worker nccl" ;;
    nccl-counts) echo "$worker nccl counts" ;;
    epbench) echo cuda ;;
    *) echo "unknown library $1" >&2; exit 2 ;;
  esac
}

drill() {
  for l in ${LIBRARIES:-epbench nccl deepep $fi deepep-ll nccl-counts}; do
    one 100 "drill-$l" --backend "$(library "$l")" --hidden 2048 --experts 64 --topk 8 --tokens 16 --max-tokens 64 \
      --routing zipf:1.0 --op dispatch,combine,pair --budget 12s
    grep -A6 '^row' "$out/drill-$l.txt"
  done
}

# sweep tunes every library under uniform routing, then for a shorter time under skewed ones.
sweep() {
  for model in ${MODELS:-deepseek-v3}; do
    for l in ${LIBRARIES:-deepep nccl $fi epbench deepep-ll}; do
      tokens=${TOKENS:-8,128,1024,4096} most=4096 skewed=${SKEW_TOKENS:-128,4096}
      test "$l" != deepep-ll || { tokens=${LL_TOKENS:-1,8,32,128} most=128 skewed=128; }
      one $((${SECONDS_EACH:-45} + 40)) "$model-$l" --backend "$(library "$l")" --model "$model" --tokens "$tokens" --max-tokens $most \
        --routing uniform --op "${OPS:-dispatch,combine,pair}" --dtype "${DTYPE:-bf16}" --budget "${SECONDS_EACH:-45}s"
      test "${SKEW_SECONDS:-18}" = 0 ||
        one $((${SKEW_SECONDS:-18} + 40)) "$model-$l-skew" --backend "$(library "$l")" --model "$model" --tokens "$skewed" --max-tokens $most \
          --routing "${ROUTING:-zipf:1.0,hotrank}" --op dispatch,combine --dtype "${DTYPE:-bf16}" --budget "${SKEW_SECONDS:-18}s"
    done
    runs=$(ls -d "$out/$model"-*/ 2> /dev/null)
    epbench table choose $runs 2>&1 | tee "$out/$model-choose.txt"
  done
  tar -C "$out" -czf "$out/runs.tgz" $(cd "$out" && ls -d ./*/) && ls -la "$out/runs.tgz"
}

# exports RUN: what the run's exports give, timed again beside what the table says.
exports() {
  epbench table export --table "$1" --format sglang -o "$out/deepep.json" && cat "$out/deepep.json"
  epbench table export --table "$1" --format deepep-shim -o "$out/epbench_deepep.py"
  model=$(basename "$1" | sed 's/-deepep$//')
  for way in "EPBENCH_DEEPEP_CONFIG=$out/deepep.json" "EPBENCH_DEEPEP_SHIM=epbench_deepep"; do
    env PYTHONPATH="$out:$PYTHONPATH" "$way" timeout 120 epbench bench --backend "$worker deepep own" --ranks "$ranks" --model "$model" \
      --tokens "${TOKENS:-128,1024,4096}" --max-tokens 4096 --routing uniform --op dispatch,combine --dtype "${DTYPE:-bf16}"
  done
}

command=${1:-sweep}
shift
case $command in
  build | drill | sweep) $command ;;
  exports) exports "$1" ;;
  *) echo "build, drill, sweep or exports RUN"; exit 2 ;;
esac
code=$?
echo
printf '%s' "$table"
test $code = 0 && ! grep -q FAILED <<< "$table"
