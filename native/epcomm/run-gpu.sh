#!/bin/bash
# What epcomm must show on 2 GPUs, from the repository's root, after `make epcomm-gpu`
# on a host with a compiler. Every step has a time limit; the table at the end says
# what passed. $OUT keeps what the steps printed.
#
#   native/epcomm/run-gpu.sh all            C tests, faults, PyTorch: at most 9 minutes
#   native/epcomm/run-gpu.sh speed [DTYPE]  PyTorch graphs beside epbench bench; a dtype is 6 minutes
#   native/epcomm/run-gpu.sh verify [I/N]   the oracle over epcomm-worker, part I of N
#   native/epcomm/run-gpu.sh graphs         pairs from bench, epcomm-worker, C and PyTorch, and what makes them
#                                           slower in PyTorch; PACK of one rank with RANKS=1
#                                           shows on one GPU what needs no peer; CASES, PROCESSES
#   native/epcomm/run-gpu.sh fourth         what many graphs cost in PyTorch, 1 minute
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/epcomm}
mkdir -p "$out"
export EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache} EPCOMM_LIBRARY=$PWD/bin/epcomm/libepcomm.so
export PYTHONPATH=$PWD/native/python/epcomm/src GLOO_SOCKET_IFNAME=lo PATH=$PWD/bin:$PATH
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
wheels='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/libnvrtc.so*", recursive=True)})'
for d in /usr/local/cuda/lib64 $(python3 -c "$wheels" 2> /dev/null); do
  test -n "$EPBENCH_NVRTC" || { ls "$d"/libnvrtc.so* > /dev/null 2>&1 && export EPBENCH_NVRTC=$d; }
done
packs=bin/packs pack=${PACK:-bin/packs/dsv3.pack} ranks=${RANKS:-2}
table=""

# step LIMIT NAME PATTERN COMMAND...: runs a command; its last line with PATTERN goes
# into the table.
step() {
  limit=$1 name=$2 pattern=$3
  shift 3
  start=$SECONDS
  timeout -s INT -k 10 "$limit" "$@" > "$out/$name.txt" 2>&1
  code=$?
  said=$(grep -E "$pattern" "$out/$name.txt" | tail -1)
  word=ok
  test $code = 0 || word="FAILED ($code)"
  table+=$(printf '%-26s %-12s %4ss  %s' "$name" "$word" $((SECONDS - start)) "$said")$'\n'
  test $code = 0 || { echo "---- $name"; tail -15 "$out/$name.txt"; }
}

t=bin/epcomm/epcomm-test
verify() {
  for dtype in fp8 bf16; do
    step 270 "verify-$dtype" '^(op|epbench|conformance)|wrong|failed' env EPBENCH_CUDA="$PWD/bin/epcomm-worker" \
      epbench verify --backend cuda --ranks 2 --only "dtype=$dtype" --part "${1:-1/1}"
    tail -40 "$out/verify-$dtype.txt"
  done
}

all() {
  nvidia-smi -L
  nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1
  for way in "" --processes; do
    for test in calls graphs flight outputs leak; do
      step 60 "c-$test$way" "^$test|equal" $t $packs/small.pack $test $way --calls 400 --replays 1000 --most 24
    done
  done
  for test in late never killed disagree other-pack truncated; do
    step 40 "c-$test" "^rank 0" $t $packs/small.pack $test --processes --deadline 2 --most 12 --other $packs/other.pack
  done
  step 90 c-long "^calls" $t $packs/small.pack calls --processes --calls 10000 --most 24
  step 60 c-deepseek "^calls" $t $packs/dsv3.pack calls --processes --calls 12 --most 24
  step 60 c-host-time "host time" $t $packs/dsv3.pack host --processes --calls 1500
  step 60 python-decode "right" python3 -m torch.distributed.run --standalone --nproc-per-node 2 examples/epcomm/decode.py $packs/small.pack
  step 280 python-check "every answer|WRONG" python3 -m epcomm check $packs/dsv3.pack --spawn 2 --calls 10000 --replays 1000 --most 256 --tokens ""
  grep -h "created\|host time\|device memory\|replays\|eager calls\|back to back" "$out/python-check.txt"
}

# routes TOKENS: what bench draws for these token counts, so that all do the same work.
routes() {
  mkdir -p "$out/routes"
  for n in $1; do
    test -f "$out/routes/$n.jsonl" || epbench workload export --model deepseek-v3 --ranks $ranks --tokens $n --routing uniform -o "$out/routes/$n.jsonl" > /dev/null
  done
}

# times PACK TURN DTYPES TOKENS: what calls take from PyTorch, a process a rank for each dtype
# and token count, since one that captured four graphs starts every kernel later. Each turn
# has its tensors elsewhere, as compare_speed.py has those of bench.
times() {
  routes "$4"
  step 200 "times-$2" "^pair" python3 -m epcomm check "$1" --spawn "$ranks" --apart --placement $(($2 - 1)) --calls 0 --replays 0 --dtypes "${3// /,}" --tokens "${4// /,}" --routes "$out/routes" --json "$out/times-$2.json"
}

speed() {
  rm -f "$out"/times-[0-9]*.json # of an earlier run
  for turn in $(seq "${PROCESSES:-5}"); do
    times $pack $turn "${1:-fp8 bf16}" "${TOKENS:-1 8 32 128 1024 4096}"
  done
  for dtype in ${1:-fp8 bf16}; do
    step 320 "speed-$dtype" "slower than" python3 native/epcomm/compare_speed.py bin/epbench $pack "$dtype" "$out"/times-[0-9]*.json
    cat "$out/speed-$dtype.txt"
  done
}

# pairs NAME COMMAND...: a step of graphs, and all that it printed.
pairs() {
  step 240 "$1" "us" "${@:2}"
  cat "$out/$1.txt"
}

# graphs: pairs of the same config from each program, several processes of each.
graphs() {
  routes "8 32"
  for case in ${CASES:-bf16:8 bf16:32 fp8:8}; do
    dtype=${case%:*} tokens=${case#*:} number=1
    test "$dtype" = bf16 || number=2
    for i in $(seq "${PROCESSES:-6}"); do
      pairs "bench-$case-$i" python3 native/epcomm/bench_pairs.py bin/epbench bin/epcomm-worker $pack $case
      pairs "c-$case-$i" $t $pack chain --processes --dtype $number --calls 2 --replays 1000 --most $tokens
    done
    pairs "pytorch-$case" python3 native/epcomm/pair_graphs.py $pack $tokens $dtype --ranks $ranks --processes "${PROCESSES:-6}" --routes "$out/routes"
  done
}

fourth() {
  step 60 fourth-graph "PyTorch, 6" python3 native/epcomm/fourth_graph.py $packs/dsv3.pack 8
  cat "$out/fourth-graph.txt"
}

case ${1:-all} in
  all) all ;;
  speed) speed "$2" ;;
  verify) verify "$2" ;;
  graphs) graphs ;;
  fourth) fourth ;;
  *) echo "all, speed, verify, graphs or fourth"; exit 2 ;;
esac
echo
printf '%s' "$table"
! grep -q FAILED <<< "$table"
