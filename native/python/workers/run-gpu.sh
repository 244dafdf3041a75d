#!/bin/bash
# Peers and our kernels on the GPUs of one host, from the repository's root, after
# `make peers-gpu`, which leaves bin/peers-gpu.tar.xz. Nothing is fetched: PEERS (default
# .peers) holds DeepEP v1.2.1 as DeepEP/, and flashinfer/ as pack-flashinfer.py makes it.
#
#   run-gpu.sh build          builds DeepEP and FlashInfer's kernel; one to three minutes
#   run-gpu.sh drill          every worker, one small search each: does it run?
#   run-gpu.sh faults         a rank of each library is killed, hangs, prints, or lacks the
#                             library: does epbench say so and go on? One minute
#   run-gpu.sh sweep          all libraries, one model: about 8 minutes
#   run-gpu.sh turns          what the sweep's runs chose, once more in turns: 2 minutes
#   run-gpu.sh whole          both models, every library, every token count, uniform, zipf:1.0
#                             and hotrank, then all in turns: about 25 minutes in calls
#                             that end by LIMIT. The same call again goes on.
#   run-gpu.sh exports        DeepEP's exports, loaded by DeepEP and timed again
#
# Several of these may be given: run-gpu.sh turns exports. WORK (default /tmp/peers-work)
# keeps runs, tables and pictures from one command to the next; OUT gets it as runs.tgz after
# each run. On a machine without them, runs.tgz in PEERS is unpacked first. LIMIT
# (default 570) is when the script stops starting things, in seconds. BACKENDS, lines of
# NAME=BACKEND, adds libraries to those that LIBRARIES may name.
#
# LIBRARIES names workers, and ours as epbench or epbench-LAYOUT; NAME@SMS takes that many SMs
# at most and runs with FEW_TOKENS. MODELS, TOKENS, LL_TOKENS, SKEW_TOKENS, ROUTING, OPS, DTYPE,
# BAND, SECONDS_EACH, SKEW_SECONDS, TURNS, SESSIONS and SWEEP_FLAGS change what a sweep does. LAUNCHER starts
# the ranks; "examples/workers/ranks.sh 2 python3" does it some seconds faster than torchrun.
cd "$(dirname "$0")/../../.." || exit 1
peers=${PEERS:-$PWD/.peers} site=${SITE:-/tmp/peers-site} work=${WORK:-/tmp/peers-work} out=${OUT:-/tmp/peers-out}
limit=${LIMIT:-570}
ranks=${RANKS:-2}
mkdir -p "$out" "$work" "$site"
# What an earlier call has left running would write to the same runs, and be measured beside.
exec 9> "$work.lock"
flock -w 60 9 || { echo "another run-gpu.sh, or what it started, is still at work in $work"; exit 1; }
test -n "$(ls -A "$work")" || ! test -f "$peers/runs.tgz" || tar -C "$work" -xzf "$peers/runs.tgz"
test -d "$site/flashinfer" || ! test -d "$peers/flashinfer" || cp -r "$peers/flashinfer/." "$site"
# Newer programs stay: somebody may be running them.
test ! -f bin/peers-gpu.tar.xz || test bin/epbench -nt bin/peers-gpu.tar.xz ||
  { python3 -m tarfile -e bin/peers-gpu.tar.xz bin && touch bin/epbench bin/epbench-cuda; } || exit 1
export PYTHONPATH=$site:$PYTHONPATH PATH=$PWD/bin:$PATH EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache}
# NVLink multicast stays off. The low-latency kernels start NVSHMEM: one host, no network.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 NCCL_DEBUG=WARN
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo GLOO_SOCKET_IFNAME=lo
wheels='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/libnvrtc.so*", recursive=True)})'
for d in /usr/local/cuda/lib64 $(python3 -c "$wheels" 2> /dev/null); do
  test -n "$EPBENCH_NVRTC" || { ls "$d"/libnvrtc.so* > /dev/null 2>&1 && export EPBENCH_NVRTC=$d; }
done
# FlashInfer takes part where it can be imported.
fi=$(python3 -c 'from flashinfer.comm import trtllm_moe_alltoall; print("flashinfer")' 2> "$work/flashinfer-import.txt")
export PYTHONWARNINGS=ignore::UserWarning # about what pack-flashinfer.py left out
export FLASHINFER_CUDA_ARCH_LIST=${FLASHINFER_CUDA_ARCH_LIST:-9.0a}
launcher=${LAUNCHER:-python3 -m torch.distributed.run --standalone --nproc-per-node $ranks}
worker="launch:$launcher native/python/workers/worker.py"
# Ten problems take 6 to 10 s a session, their checks included.
sessions=${SESSIONS:+--sessions $SESSIONS} session_seconds=$((12 * ${SESSIONS:-0}))

build() {
  # A machine that is still warm has it.
  python3 -c 'import torch, deep_ep' 2> /dev/null && { test -z "$fi" || test -f "$work/build-flashinfer.txt"; } && return 0
  cuda=${CUDA_HOME:-/usr/local/cuda}
  # A worker that compiled at its start would miss the deadline for its first answer.
  test -z "$fi" || timeout 500 python3 -c 'from flashinfer.jit.comm import gen_moe_alltoall_module as g; g("legacy").build_and_load(); print("FlashInfer compiled")' > "$work/build-flashinfer.txt" 2>&1 &
  rm -rf /tmp/DeepEP && cp -r "$peers/DeepEP" /tmp/DeepEP && cd /tmp/DeepEP || exit 1
  # Without InfiniBand there are no queue pairs: the low-latency kernels assert some, and
  # the buffer asks NVSHMEM for a transport that is not there.
  sed -i '/EP_DEVICE_ASSERT(ibgda_get_state()->num_rc_per_pe >= num_local_experts);/d' csrc/kernels/internode_ll.cu
  sed -i "s/os.environ\['NVSHMEM_IB_ENABLE_IBGDA'\] = '1'/os.environ['NVSHMEM_IB_ENABLE_IBGDA'] = '0'/" deep_ep/buffer.py
  # nvcc takes a variable LIBRARIES for its own, and would link files of those names.
  CPATH=$cuda/include/cccl:$CPATH CUDA_HOME=$cuda TORCH_CUDA_ARCH_LIST=9.0 MAX_JOBS=16 \
    timeout 500 env -u LIBRARIES python3 setup.py -q build --build-lib "$site" > "$work/build.txt" 2>&1
  code=$?
  tail -3 "$work/build.txt"
  cd - > /dev/null || exit 1
  python3 -c 'import torch, deep_ep; print("DeepEP", deep_ep.__file__)' || code=1
  wait
  tail -3 "${fi:+$work/build-flashinfer.txt}" "$work/flashinfer-import.txt" 2> /dev/null
  return $code
}

table=""
# one LIMIT NAME COMMAND...: a command of LIMIT seconds at most, its output in NAME.txt
one() {
  most=$1 name=$2 start=$SECONDS
  shift 2
  if [ $((limit - SECONDS)) -lt 25 ]; then
    table+=$(printf '%-28s %s' "$name" "FAILED: no time left")$'\n'
    return 1
  fi
  test -n "$resume" || rm -rf "${work:?}/$name"
  timeout -s INT -k 10 $((most < limit - SECONDS ? most : limit - SECONDS)) "$@" > "$work/$name.txt" 2>&1
  code=$? word=ok
  test $code = 0 || test $code = 4 || word="FAILED ($code)"
  table+=$(printf '%-28s %-12s %4ss' "$name" "$word" $((SECONDS - start)))$'\n'
  test "$word" = ok || { echo "---- $name"; tail -15 "$work/$name.txt"; }
  tar -C "$work" -czf "$out/runs.tgz" . # what is cut off later has left this behind
}

# tuned LIMIT NAME BACKEND ARGS...: a sweep into the run directory $work/NAME
tuned() {
  most=$1 name=$2 backend=$3
  shift 3
  one "$most" "$name" epbench sweep -o "$work/$name" --ranks "$ranks" --band "${BAND:-2%}" --backend "$backend" ${SWEEP_FLAGS:-} "$@"
}

# once LIMIT NAME COMMAND...: what no earlier call has finished, if LIMIT is left. What
# failed twice is given up: 3 says that one library of several failed, 4 that something
# could not be decided, and both leave results.
pending=""
once() {
  local needs=$1 name=$2
  shift 2
  test ! -e "$work/$name.done" || return 0
  if [ $((limit - SECONDS)) -lt $((needs > 25 ? needs : 25)) ]; then
    pending+=" $name"
    return 1
  fi
  one "$needs" "$name" "$@"
  case $code in
    0 | 3 | 4) touch "$work/$name.done" ;;
    *) echo "$code" >> "$work/$name.tries"
      if test -n "$resume" && test "$code" = 2; then rm -rf "${work:?}/$name"; fi # a run of another machine is refused: begin anew
      test "$(wc -l < "$work/$name.tries")" -ge 2 && touch "$work/$name.done" || pending+=" $name" ;;
  esac
}

# swept SECONDS NAME BACKEND ARGS...: tuned, by once; an interrupted sweep is resumed.
swept() {
  local seconds=$1 name=$2 backend=$3
  shift 3
  if test -s "$work/$name/trials.jsonl"; then
    resume=1 once $((seconds + 45)) "$name" epbench sweep --resume "$work/$name"
  else
    once $((seconds + 45)) "$name" epbench sweep -o "$work/$name" --ranks "$ranks" --band "${BAND:-2%}" --backend "$backend" --budget "${seconds}s" ${SWEEP_FLAGS:-} "$@"
  fi
}

# whole is sweep and turns for several models, each step once over several calls.
whole() {
  local gpus
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | sort | uniq -c)
  test -e "$work/gpus.txt" || echo "$gpus" > "$work/gpus.txt"
  test "$gpus" = "$(cat "$work/gpus.txt")" || { echo "here are$gpus, but the runs so far are of$(cat "$work/gpus.txt"): they cannot be compared; empty $work and PEERS/runs.tgz, or take such a host"; return 1; }
  for model in ${MODELS:-deepseek-v3 qwen3-30b-a3b}; do
    for l in ${LIBRARIES:-deepep nccl $fi epbench epbench-rank deepep-ll}; do
      tokens=${TOKENS:-1,8,128,1024,4096} max=${MAX_TOKENS:-4096}
      case $l in
        deepep-ll | epbench-masked) tokens=${LL_TOKENS:-1,8,128} max=128 ;;
        *@*) tokens=${FEW_TOKENS:-1024,4096} ;;
      esac
      args="--model $model --tokens $tokens --max-tokens $max --op ${OPS:-dispatch,combine,pair} --dtype ${DTYPE:-bf16} $(flags "$l")"
      swept "${SECONDS_EACH:-40}" "$model-$l" "$(library "$l")" $args --routing uniform
      swept "${SKEW_SECONDS:-25}" "$model-$l-skew" "$(library "$l")" $args --routing "${ROUTING:-zipf:1.0,hotrank}"
    done
    test -z "$pending" || break
    for routing in uniform $(tr ',' ' ' <<< "${ROUTING:-zipf:1.0,hotrank}"); do
      of=$(runs "$model" | grep -e '-skew$')
      test "$routing" != uniform || of=$(runs "$model" | grep -v -e '-skew$')
      once "${TURN_SECONDS:-150}" "$model-turns-${routing%:*}" epbench interleave $of --routing "$routing" -o "$work/$model-turns-${routing%:*}" --turns "${TURNS:-40}"
    done
    test -z "$pending" || break
    test -e "$work/$model-chosen.done" || { choose "$model-turns" "$work/$model-turns"-*/*/ && touch "$work/$model-chosen.done"; }
  done
  test -z "$pending" || echo "to be done:$pending; give the same call again, with $out/runs.tgz in PEERS where this machine is gone"
}

# flags NAME: what a sweep of NAME[@SMS] is told. Ours in another layout is epbench-LAYOUT.
flags() {
  local l=${1%@*}
  test "$l" = "${l#epbench-}" || echo "--layout ${l#epbench-}"
  # Tokens come to the libraries' calls of this layout already cast.
  case ${DTYPE:-bf16}:$l in fp8:epbench-rank*) echo "--param input=fp8" ;; esac
  test "$l" = "$1" || echo "--max-sms ${1#*@}"
}

# library NAME: its backend.
library() {
  local given
  given=$(grep "^$1=" <<< "$BACKENDS") && { echo "${given#*=}"; return; }
  case ${1%@*} in
    deepep) echo "$worker deepep" ;;
    deepep-ll) echo "$worker deepep ll" ;;
    flashinfer) echo "$worker flashinfer" ;;
    nccl) echo "$worker nccl" ;;
    nccl-counts) echo "$worker nccl counts" ;;
    epbench | epbench-*) echo cuda ;;
    *) echo "unknown library $1" >&2; exit 2 ;;
  esac
}

drill() {
  for l in ${LIBRARIES:-epbench epbench-rank nccl deepep $fi deepep-ll nccl-counts}; do
    tuned 80 "drill-$l" "$(library "$l")" --hidden 2048 --experts 64 --topk 8 --tokens 16 --max-tokens 64 \
      --routing zipf:1.0 --op dispatch,combine,pair --budget 12s $(flags "$l")
    grep -A6 '^row' "$work/drill-$l.txt"
  done
}

# faults: all libraries and faults at the same time, since nothing is timed. The config with the
# second value of a param is the one that fails.
faults() {
  local l kind first second all others="" prints=""
  all=$(tr -s ' ' '\n' <<< "${LIBRARIES:-deepep nccl $fi}" | grep -v '^epbench') # ours has drills of its own
  for kind in kill hang missing print; do
    for l in $all; do
      fault "$kind" "$l" &
      test "$kind" = print && prints+=" $!" || others+=" $!"
    done
  done
  wait $prints
  read -r first second _ <<< "${all//$'\n'/ }"
  if test -n "$second"; then
    EPBENCH_FAULT=missing:$second faulty faults-left-out interleave "$work/faults-$first-print" "$work/faults-$second-print" --turns 2 -o "$work/faults-left-out"
    right faults-left-out 1 faults-left-out.txt "faults-$second-print is left out: .*rank 1 of .* No module named"
    right faults-left-out 1 "faults-left-out/faults-$first-print/trials.jsonl" '"status":"ok"'
  fi
  wait $others
  for l in $all; do
    right "faults-$l-kill" "0|4" "faults-$l-kill/trials.jsonl" '"status":"crash","reason":"[a-z]*: rank 1 of'
    right "faults-$l-hang" "0|4" "faults-$l-hang/trials.jsonl" '"status":"hang","reason":"no answer to [a-z]* within [^"]*rank 1 of'
    right "faults-$l-print" "0|4" "faults-$l-print.txt" 'worker: a line on standard output'
    right "faults-$l-missing" 1 "faults-$l-missing.txt" 'rank 1 of .* No module named'
    for kind in kill hang print; do # the last trial: epbench went on
      tail -n 1 "$work/faults-$l-$kind/trials.jsonl" > "$work/faults-$l-$kind.last"
      right "faults-$l-$kind" "0|4" "faults-$l-$kind.last" '"stage":"confirm".*"status":"ok"'
    done
  done
  ! pgrep -fl workers/faulty.py || table+="processes of faults are left: FAILED"$'\n'
}

# fault KIND LIBRARY: a small sweep with a fault
fault() {
  local values where backend others=""
  case $2 in
    deepep) values=sms=20,64 others="--param send=24" ;; # each config with 64 SMs ends a worker
    deepep-ll) values=hook=0,1 ;;
    nccl*) values=ctas=0,32 ;;
    flashinfer) values=threads=256,512 ;;
    *) values=${FAULT_VALUES:-messages=1,4} ;;
  esac
  where=${values%%=*}=${values##*,}
  test "$1" != missing || where=$2
  backend=$(library "$2")
  EPBENCH_FAULT=$1:$where faulty "faults-$2-$1" sweep -o "$work/faults-$2-$1" --ranks "$ranks" --band 2% --backend "${backend/worker.py/faulty.py $2}" \
    --hidden 2048 --experts 64 --topk 8 --tokens 16 --max-tokens 64 --routing uniform --op dispatch --param "$values" $others --budget 8s ${SWEEP_FLAGS:-}
}

# faulty NAME COMMAND...: what epbench does with a fault, in NAME.txt and NAME.code
faulty() {
  local name=$1
  shift
  rm -rf "${work:?}/$name"
  timeout -s INT -k 10 90 epbench "$@" > "$work/$name.txt" 2>&1
  echo $? > "$work/$name.code"
}

# right NAME CODES FILE PATTERN: whether it ended as it has to
right() {
  local word=ok
  grep -qxE "$2" "$work/$1.code" && grep -q "$4" "$work/$3" || word=FAILED
  table+=$(printf '%-28s %-12s code %s, %s' "$1" "$word" "$(cat "$work/$1.code")" "$4")$'\n'
  test "$word" = ok || { echo "---- $1"; tail -15 "$work/$1.txt"; }
}

# sweep tunes every library under uniform routing, then for a shorter time under skewed ones.
sweep() {
  for model in ${MODELS:-deepseek-v3}; do
    for l in ${LIBRARIES:-deepep nccl $fi epbench epbench-rank deepep-ll}; do
      tokens=${TOKENS:-1,8,128,1024,4096} max=4096 skewed=${SKEW_TOKENS:-128,4096}
      case $l in
        deepep-ll | epbench-masked) tokens=${LL_TOKENS:-1,8,32,128} max=128 skewed=128 ;;
        *@*) tokens=${FEW_TOKENS:-1024,4096} skewed=4096 ;;
      esac
      tuned $((${SECONDS_EACH:-40} + 45 + session_seconds)) "$model-$l" "$(library "$l")" --model "$model" --tokens "$tokens" --max-tokens $max \
        --routing uniform --op "${OPS:-dispatch,combine,pair}" --dtype "${DTYPE:-bf16}" --budget "${SECONDS_EACH:-40}s" $sessions $(flags "$l")
      test "${SKEW_SECONDS:-12}" = 0 ||
        tuned $((${SKEW_SECONDS:-12} + 45)) "$model-$l-skew" "$(library "$l")" --model "$model" --tokens "$skewed" --max-tokens $max \
          --routing "${ROUTING:-zipf:1.0,hotrank}" --op dispatch,combine --dtype "${DTYPE:-bf16}" --budget "${SKEW_SECONDS:-12}s" $(flags "$l")
    done
    choose "$model" $(runs "$model")
  done
}

# runs MODEL: the run directories of its sweeps, of LIBRARIES where they are given; those of
# turns lie one folder deeper.
runs() {
  local d of
  for d in "$work/$1"-*; do
    of=${d#"$work/$1-"}
    of=${of%-skew}
    test ! -s "$d/trials.jsonl" || test "${of#own-}" != "$of" || case " ${LIBRARIES:-$of} " in *" $of "*) echo "$d" ;; esac
  done
}

# choose NAME RUNS...: the libraries side by side, on the screen and in files of $work.
choose() {
  name=$1
  shift
  epbench table choose "$@" 2>&1 | tee "$work/$name-choose.txt"
  epbench report --only libraries --no-html --width 200 "$@" > "$work/$name-libraries.txt" 2>&1
  epbench report --only libraries --no-html --format csv "$@" > "$work/$name-libraries.csv"
  epbench plot --kind libraries -o "$work/$name-pictures" "$@" > /dev/null || true # of one library there is no picture
}

# turns measures what the sweeps chose again, all libraries in turns.
turns() {
  for model in ${MODELS:-deepseek-v3}; do
    one 400 "$model-turns" epbench interleave $(runs "$model") -o "$work/$model-turns" --turns "${TURNS:-40}"
    choose "$model-turns" "$work/$model-turns"/*/
  done
}

# exports: DeepEP with the shim, the JSON and its own map (WAYS), each beside the sweep's own
# config in the same rounds of one worker: two workers with one config may differ by several per
# cent, and so may two sessions of one worker. So there are COPIES workers of each, and SESSIONS
# of each worker; with SESSIONS the sweep states times over as many, too.
exports() {
  local way n from args
  for model in ${MODELS:-deepseek-v3}; do
    from=$work/$model-deepep
    epbench table export --table "$from" --format sglang -o "$work/$model.json" > "$work/$model-json.txt" 2>&1 && cat "$work/$model.json"
    epbench table export --table "$from" --format deepep-shim -o "$work/epbench_deepep.py" > "$work/$model-shim.txt" 2>&1
    cat "$work/$model-json.txt" "$work/$model-shim.txt"
    args="--model $model --ranks $ranks --tokens ${TOKENS:-1,8,128,1024,4096} --max-tokens ${MAX_TOKENS:-4096} --routing uniform --op dispatch,combine --dtype ${DTYPE:-bf16}"
    for n in $(seq "${COPIES:-4}"); do
      for way in ${WAYS:-shim json map}; do
        one $((60 + session_seconds)) "$model-own-$way-$n" epbench bench $args --over "$from" --config "deepep-own:by=$way" --rounds "${TURNS:-40}" $sessions -o "$work/$model-own-$way-$n" --backend \
          "launch:env PYTHONPATH=$work:$PYTHONPATH EPBENCH_DEEPEP_CONFIG=$work/$model.json EPBENCH_DEEPEP_SHIM=epbench_deepep ${worker#launch:} deepep own"
      done
    done
    python3 native/python/workers/exported.py "$from" --says json="$work/$model-json.txt" --says shim="$work/$model-shim.txt" "$work/$model"-own-*/ | tee "$work/$model-exports.txt"
  done
}

for command in "${@:-sweep}"; do
  case $command in
    build | drill | faults | sweep | turns | whole | exports) $command || table+="$command FAILED"$'\n' ;;
    *) echo "build, drill, faults, sweep, turns, whole or exports, not $command"; exit 2 ;;
  esac
done
tar -C "$work" -czf "$out/runs.tgz" . && ls -la "$out/runs.tgz"
echo
printf '%s' "$table"
! grep -q FAILED <<< "$table"
