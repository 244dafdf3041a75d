#!/bin/bash
# Tests the kernels for several hosts, on 2 GPUs of one host. Run `make cuda-deps NVSHMEM=1 hosts-gpu` first.
#
#   hosts-gpu.sh drill     prints versions and makes one small verification
#   hosts-gpu.sh peers     verifies the --quick cases with the kernels for one host, one process for each GPU
#   hosts-gpu.sh conform   verifies all default cases of DTYPES (default all); PART=1/4 runs a quarter of them
#   hosts-gpu.sh endure    makes 1,000 calls back to back, fp8 and bf16, by both routes between hosts (direct and rail)
#   hosts-gpu.sh lost      loses a signal; the error must name both ranks
#   hosts-gpu.sh four      verifies 4 processes on 2 GPUs, as 2 hosts of 2 ranks
#   hosts-gpu.sh epcomm    tests epcomm with packs for 2 hosts, verifies it, and times a pack for DeepSeek-V3
#   hosts-gpu.sh times     times calls between threads of one process, between processes, and over NVSHMEM
#
# Give several of these words to run several tests, or no word to run all.
cd "$(dirname "$0")/.." || exit 1
. native/steps.sh
work=${WORK:-/tmp/hosts-work}
mkdir -p "$work" && unpack bin/hosts-gpu.tar.xz "$work" epbench || exit 1
export PATH=$work:$PATH EPBENCH_NVSHMEM=$work/nvshmem CUDA_DEVICE_MAX_CONNECTIONS=32
export LD_LIBRARY_PATH=$EPBENCH_NVRTC:$(library_folder 'libnvJitLink.so*'):$LD_LIBRARY_PATH

launched() { echo "launch:examples/workers/ranks.sh $1 $work/epbench-cuda rank $2"; }
verify() { step 500 "$1" '^all ' epbench verify --backend "$2" "${@:3}" --all; }
# tested NAME PACK TEST FLAGS... runs one of epcomm's tests.
tested() { step 90 "epcomm-$1" '^(calls|rank 0)|equal' epcomm-test "$work/$2.pack" "$3" --processes --most 24 "${@:4}"; }

drill() {
  step 60 versions '' sh -c "nvidia-smi -L; nvidia-smi topo -m; cat $work/nvshmem/VERSION; epbench version; epbench-cuda info"
  verify drill "$(launched 2 --split)" --quick --ranks 2 --nodes 2 --only op=dispatch
}
peers() { verify peers "$(launched 2)" --quick --ranks 2; }
conform() {
  for dtype in ${DTYPES:-fp8 bf16 nvfp4 mxfp4}; do
    verify "conform-$dtype" "$(launched 2 --split)" --ranks 2 --nodes 2 --only "dtype=$dtype" --part "${PART:-1/1}"
  done
}
endure() { verify endure "$(launched 2 --split)" --ranks 2 --nodes 2 --only special=back-to-back; }
lost() {
  accepted="1 3" step 120 lost 'no progress within' epbench verify --backend "$(launched 2 "--split --deadline 2s --drill drop:1:0:mode=split")" --quick --ranks 2 --nodes 2 --only op=dispatch --part 1/6 --all
}
four() { verify four "$(launched 4 "--split --loopback --deadline 20s")" --quick --ranks 4 --nodes 2 --only op=pair; }
epcomm() {
  for test in calls graphs flight outputs nodes leak refusals left; do tested $test nodes-2 $test --calls 400 --replays 400; done
  for test in late never disagree killed; do tested $test nodes-2 $test --deadline 2; done
  tested endure nodes-2 calls --calls 2000
  tested four nodes-4 calls --gpus 2 --calls 40 --deadline 20
  verify epcomm-oracle "exec:$work/epcomm-worker --nodes 2" --quick --ranks 2 --nodes 2 --only op=pair
  step 200 epcomm-pack '' sh -c "epbench machine --json > '$work/machine.json' && EPBENCH_COMPILE='$work/epbench-compile' epbench pack --machine '$work/machine.json' --model deepseek-v3 --ranks 2 --nodes 2 --max-tokens 128 --dtype fp8 -o '$work/dsv3.pack'"
  step 90 epcomm-times '' epbench bench --backend "exec:$work/epcomm-worker --pack $work/dsv3.pack" --model deepseek-v3 --ranks 2 --nodes 2 --max-tokens 128 --op dispatch,combine,pair --dtype fp8 --routing uniform --tokens 8,128
}
times() {
  local shape="--ranks 2 --model deepseek-v3 --op dispatch,combine,pair --routing uniform --tokens ${TOKENS:-8,128,1024,4096}"
  for dtype in fp8 bf16; do
    step 120 "times-process-$dtype" '' epbench bench --backend cuda $shape --dtype $dtype
    step 120 "times-peers-$dtype" '' epbench bench --backend "$(launched 2)" $shape --dtype $dtype
    step 120 "times-nvshmem-$dtype" '' epbench bench --backend "$(launched 2 --split)" $shape --nodes 2 --dtype $dtype
    step 120 "times-rail-$dtype" '' epbench bench --backend "$(launched 2 --split)" $shape --op pair --nodes 2 --dtype $dtype --config "dispatch.route=rail combine.route=rail"
  done
  cat "$out"/times-*.txt
}

for call in ${*:-drill peers conform endure lost four epcomm times}; do
  case $call in
    drill | peers | conform | endure | lost | four | epcomm | times) $call ;;
    *) echo "unknown: $call"; exit 2 ;;
  esac
done
finish
