#!/bin/bash
# The kernels that cross hosts, on the 2 GPUs of one host, from the repository's root,
# after `make cuda-deps NVSHMEM=1 hosts-gpu`, which leaves bin/hosts-gpu.tar.xz. Each GPU
# plays a host: NVSHMEM runs over the link between them and no network takes part.
#
#   hosts-gpu.sh drill        does it start? versions, one small verification
#   hosts-gpu.sh peers        the same programs without NVSHMEM: the quick matrix, one host
#   hosts-gpu.sh conform      the default matrix, DTYPES (default all), fused and split, both routes; parts of it with PART=1/4
#   hosts-gpu.sh endure       1,000 calls back to back, fp8 and bf16, both routes
#   hosts-gpu.sh kill         a rank killed in mid-call, and a lost signal: who is named, and when
#   hosts-gpu.sh four         4 processes on 2 GPUs, 2 hosts of 2: forwarding
#   hosts-gpu.sh epcomm       packs: epcomm's own tests, the oracle over them, a pack for DeepSeek-V3
#   hosts-gpu.sh times        the same kernels by NVSHMEM and by peer pointers, and the one-process kernels
#
# Several may be given. Results go to OUT (default /tmp/hosts-out), one file a step. LIMIT
# (default 560) is when the script starts nothing more, in seconds; what it did not start
# it names. Exit status 0 when everything that ran passed.
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-/tmp/hosts-out} work=${WORK:-/tmp/hosts-work} limit=${LIMIT:-560}
mkdir -p "$out" "$work"
test -x "$work/epbench" || python3 -m tarfile -e bin/hosts-gpu.tar.xz "$work" || exit 1
export PATH=$work:$PATH EPBENCH_NVSHMEM=$work/nvshmem EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache}
# One host: no remote transport, the bootstrap over loopback. NVLink multicast stays off.
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo NVSHMEM_DISABLE_NVLS=1
export CUDA_DEVICE_MAX_CONNECTIONS=32
for lib in nvrtc nvJitLink; do
  find='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/lib'$lib'.so*", recursive=True)})'
  for d in /usr/local/cuda/lib64 $(python3 -c "$find" 2> /dev/null); do
    ls "$d"/lib$lib.so* > /dev/null 2>&1 && export LD_LIBRARY_PATH=$d:$LD_LIBRARY_PATH && { test $lib != nvrtc || export EPBENCH_NVRTC=$d; } && break
  done
done
status=0

# launched RANKS FLAGS: the backend of so many processes.
launched() { echo "launch:examples/workers/ranks.sh $1 $work/epbench-cuda rank $2"; }

# step NAME COMMAND...: runs and times one command, its output kept.
step() {
  name=$1
  shift
  if test $SECONDS -gt "$limit"; then
    echo "$name: not started, $SECONDS s are over"
    return
  fi
  printf '%-24s ' "$name"
  begin=$SECONDS
  if timeout $((limit + 30 - SECONDS)) "$@" > "$out/$name.txt" 2>&1; then
    echo "ok, $((SECONDS - begin)) s"
  else
    echo "FAILED ($out/$name.txt), $((SECONDS - begin)) s"
    tail -5 "$out/$name.txt"
    status=1
  fi
}

drill() {
  step versions sh -c "nvidia-smi -L; nvidia-smi topo -m; cat $work/nvshmem/VERSION; epbench version; epbench-cuda info"
  step drill epbench verify --backend "$(launched 2 --split)" --quick --ranks 2 --nodes 2 --only op=dispatch --all
}

peers() {
  step peers epbench verify --backend "$(launched 2)" --quick --ranks 2 --all
}

conform() {
  part=${PART:-1/1}
  for dtype in ${DTYPES:-fp8 bf16 nvfp4 mxfp4}; do
    step "conform-$dtype-${part/\//-of-}" epbench verify --backend "$(launched 2 --split)" --ranks 2 --nodes 2 --only "dtype=$dtype" --part "$part" --all
  done
}

endure() {
  step endure epbench verify --backend "$(launched 2 --split)" --ranks 2 --nodes 2 --only special=back-to-back --all
}

kill_() {
  run=$out/killed-run
  rm -rf "$run"
  (
    sleep 20
    kill -KILL "$(pgrep -n -f "^$work/epbench-cuda rank")" # the newest rank of this script
  ) &
  killer=$!
  # The search goes on after the crash; what it recorded names the rank.
  step killed sh -c "epbench sweep --backend '$(launched 2 "--split --deadline 2s")' --ranks 2 --nodes 2 --model deepseek-v3 --op pair --dtype fp8 --tokens 1024 --routing uniform --budget 45s -o '$run'; grep -o 'rank [0-9][^\"]* is gone' '$run/trials.jsonl'"
  kill $killer 2> /dev/null && echo "killed: over before a rank was killed" # else it would kill a rank of the next step
  tail -1 "$out/killed.txt"
  step lost sh -c "! epbench verify --backend '$(launched 2 "--split --deadline 2s --drill drop:1:0:mode=split")' --quick --ranks 2 --nodes 2 --only op=dispatch --part 1/6 --all"
  grep -m1 "no progress within" "$out/lost.txt"
}

four() {
  step four epbench verify --backend "$(launched 4 "--split --loopback --deadline 20s")" --quick --ranks 4 --nodes 2 --only op=pair --all
}

# tested NAME PACK TEST FLAGS...: one of epcomm's tests, a process a rank.
tested() {
  name=$1 pack=$2 test=$3
  shift 3
  step "$name" timeout -k 5 90 epcomm-test "$work/$pack.pack" "$test" --processes --most 24 "$@"
  test ! -f "$out/$name.txt" || tail -1 "$out/$name.txt"
}

epcomm() {
  for test in calls graphs flight outputs nodes leak refusals left; do
    tested "epcomm-$test" nodes-2 $test --calls 400 --replays 400
  done
  for test in late never disagree killed; do
    tested "epcomm-$test" nodes-2 $test --deadline 2
    grep "^rank 0" "$out/epcomm-$test.txt"
  done
  tested epcomm-endure nodes-2 calls --calls 2000
  tested epcomm-four nodes-4 calls --gpus 2 --calls 40 --deadline 20
  step epcomm-oracle timeout -k 5 200 epbench verify --backend "exec:$work/epcomm-worker --nodes 2" --quick --ranks 2 --nodes 2 --only op=pair --all
  step epcomm-pack sh -c "epbench machine --json > '$work/machine.json' && EPBENCH_COMPILE='$work/epbench-compile' epbench pack --machine '$work/machine.json' --model deepseek-v3 --ranks 2 --nodes 2 --max-tokens 128 --dtype fp8 -o '$work/dsv3.pack'"
  step epcomm-times timeout -k 5 90 epbench bench --backend "exec:$work/epcomm-worker --pack $work/dsv3.pack" --model deepseek-v3 --ranks 2 --nodes 2 --max-tokens 128 --op dispatch,combine,pair --dtype fp8 --routing uniform --tokens 8,128
  cat "$out/epcomm-pack.txt" "$out/epcomm-times.txt"
}

times() {
  shape="--ranks 2 --model deepseek-v3 --op dispatch,combine,pair --routing uniform --tokens ${TOKENS:-8,128,1024,4096}"
  for dtype in fp8 bf16; do
    step "times-process-$dtype" epbench bench --backend cuda $shape --dtype $dtype
    step "times-peers-$dtype" epbench bench --backend "$(launched 2)" $shape --dtype $dtype
    step "times-nvshmem-$dtype" epbench bench --backend "$(launched 2 --split)" $shape --nodes 2 --dtype $dtype
    step "times-rail-$dtype" epbench bench --backend "$(launched 2 --split)" $shape --op pair --nodes 2 --dtype $dtype --config "dispatch.route=rail combine.route=rail"
  done
  cat "$out"/times-*.txt
}

test $# -gt 0 || set -- drill peers conform endure kill four epcomm times
for what in "$@"; do
  case $what in
    drill | peers | conform | endure | four | epcomm | times) $what ;;
    kill) kill_ ;;
    *) echo "unknown: $what"; exit 2 ;;
  esac
done
exit $status
