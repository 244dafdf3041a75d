#!/bin/bash
# Tests epcomm on 2 GPUs. Run `make epcomm-gpu` first, on a host with a compiler.
#
#   native/epcomm/run-gpu.sh all           runs the tests in C, the faults and the checks with PyTorch, at most 9 minutes
#   native/epcomm/run-gpu.sh verify [I/N]  compares epcomm-worker with the oracle, part I of N
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
export EPCOMM_LIBRARY=$PWD/bin/epcomm/libepcomm.so PYTHONPATH=$PWD/native/python/epcomm/src PATH=$PWD/bin:$PATH
packs=bin/packs t=bin/epcomm/epcomm-test

verify() {
  for dtype in fp8 bf16; do
    step 270 "verify-$dtype" '^all |wrong|failed' env EPBENCH_CUDA="$PWD/bin/epcomm-worker" \
      epbench verify --backend cuda --ranks 2 --only "dtype=$dtype" --part "${1:-1/1}"
  done
}

all() {
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
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
  step 280 python-check "every result|WRONG" python3 -m epcomm check $packs/dsv3.pack --spawn 2 --calls 10000 --replays 1000 --most 256 --tokens ""
  grep -h "created\|host time\|device memory\|replays\|eager calls\|back to back" "$out/python-check.txt"
}

case ${1:-all} in
  all) all ;;
  verify) verify "$2" ;;
  *) echo "all or verify"; exit 2 ;;
esac
finish
