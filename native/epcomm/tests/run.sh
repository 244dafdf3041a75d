#!/bin/bash
# Runs every C test of epcomm, from the repository's root. $1 has the programs and packs.
bin=$1
LIMIT=${LIMIT:-7200} OUT=$bin/said
. native/steps.sh
here=native/epcomm/tests
patient="--deadline 120"

for way in "" --processes; do
  for test in calls flight outputs graphs leak; do
    step 600 "$test$way" '' "$bin/epcomm-test" "$bin/test.pack" $test $way $patient --calls 12 --replays 30 --most 24
  done
  for test in late never disagree parted bad-id arguments other-pack options truncated; do
    step 600 "$test$way" '' "$bin/epcomm-test" "$bin/test.pack" $test $way --deadline 0.4 --most 12 --other "$bin/other.pack"
  done
done
for test in limits answers fits context stop machines; do
  step 600 "$test-processes" '' "$bin/epcomm-test" "$bin/test.pack" $test --processes --deadline 20 --most 12
done
# Ranks share heaps by IPC handles if GPUs have no memory that descriptors share, or if such memory cannot be imported.
for files in 0 2; do
  step 600 "calls-files-$files" '' env EMUL_GPUS=4 EMUL_FILES=$files "$bin/epcomm-test" "$bin/four.pack" calls --processes $patient --calls 6 --most 24
done
# Each of 4 ranks maps its own heap and three others.
step 600 "descriptors" '' bash -c 'rm -f "$0"; EMUL_GPUS=4 EMUL_TRACE="$0" "$@" && test "$(grep -c cuMemAddressReserve "$0")" = 16' \
  "$OUT/heaps.trace" "$bin/epcomm-test" "$bin/four.pack" calls --processes $patient --calls 2 --most 24
step 600 "chain-processes" '' "$bin/epcomm-test" "$bin/test.pack" chain --processes $patient --calls 1 --replays 1 --most 4
step 600 "killed-processes" '' "$bin/epcomm-test" "$bin/test.pack" killed --processes --deadline 1 --most 12
step 600 "broken-processes" '' "$bin/epcomm-test" "$bin/test.pack" broken --processes
step 600 "other-kind-processes" '' "$bin/epcomm-test" "$bin/test.pack" other-kind --processes
# Two streams need twice the SMs.
step 600 "slots-processes" '' env EMUL_SMS=8 "$bin/epcomm-test" "$bin/test.pack" slots --processes $patient
step 600 "fits-masked" '' "$bin/epcomm-test" "$bin/every-masked.pack" fits --processes --deadline 20
step 600 "any-order-processes" '' "$bin/epcomm-test" "$bin/masked.pack" any-order --processes $patient --most 6
step 600 "any-order-survivors" '' env EMUL_GPUS=8 "$bin/epcomm-test" "$bin/survivors.pack" any-order --processes $patient --most 6
step 600 "calls-4-ranks" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/four.pack" calls --processes $patient --calls 6 --most 24
for layout in ${LAYOUTS:-expert masked rank rank-packed expert-128}; do
  step 600 "wrap-$layout" '' "$bin/epcomm-test" "$bin/every-$layout.pack" wrap --processes $patient --calls 5
  step 600 "mixed-$layout" '' "$bin/epcomm-test" "$bin/every-$layout.pack" mixed --processes $patient --calls 100
  step 600 "soak-$layout" 'calls,' "$bin/epcomm-test" "$bin/every-$layout.pack" soak --processes --deadline 0.5 --seconds ${SOAK:-2}
  step 600 "spoiled-$layout" '' "$bin/epcomm-test" "$bin/every-$layout.pack" spoiled --processes --deadline 0.3
done
for at in counts rows between combine halves combine-halves replay; do
  step 600 "lost-at-$at" '' env EMUL_GPUS=8 "$bin/epcomm-test" "$bin/survivors.pack" lost --processes --deadline 0.2 --victims 2 --at $at
done
for layout in rank rank-packed; do
  step 600 "lost-$layout" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/survivors-$layout.pack" lost --processes --deadline 0.5 --at rows
done
for files in 0 2; do
  step 600 "grow-files-$files" '' env EMUL_GPUS=4 EMUL_FILES=$files "$bin/epcomm-test" "$bin/survivors-rank.pack" grow --processes --deadline 2
done
step 600 "grow-rank" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/survivors-rank.pack" grow --processes --deadline 0.5
for test in grow refuse; do
  step 600 "$test" '' env EMUL_GPUS=8 "$bin/epcomm-test" "$bin/survivors.pack" $test --processes --deadline 0.5
done
step 600 "killing" 'killed' env EMUL_GPUS=8 "$bin/epcomm-test" "$bin/survivors.pack" killing --processes --deadline 0.5 --seconds 5
# 4 processes of this host are 2 nodes.
for test in calls graphs flight nodes refusals left crashed unfilled wrap; do
  step 600 "$test-2-nodes" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/nodes.pack" $test --processes $patient --calls 40 --replays 40 --most 24 --other "$bin/four.pack"
done
# With 4 tokens, the routes direct and rail use the same memory in turn.
for test in calls graphs flight; do
  step 600 "$test-of-few-tokens-2-nodes" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/nodes.pack" $test --processes $patient --calls 200 --replays 100 --most 4
done
step 600 "chain-2-nodes" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/nodes.pack" chain --processes $patient --calls 1 --replays 1 --most 4
for test in never killed spoiled; do
  step 600 "$test-2-nodes" '' env EMUL_GPUS=4 "$bin/epcomm-test" "$bin/nodes.pack" $test --processes --deadline 0.5 --most 12
done
# Sanitizers cannot follow the emulator's switches of stacks.
for test in calls graphs late truncated; do
  step 600 "$test-sanitizers" '' env ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 \
    "$bin/epcomm-test-checked" "$bin/test.pack" $test --calls 6 --replays 6 --most 12 --deadline 1
done
step 600 "nodes-sanitizers" '' env EMUL_GPUS=4 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 \
  "$bin/epcomm-test-checked" "$bin/nodes.pack" nodes --processes --most 12
step 600 "grow-sanitizers" '' env EMUL_GPUS=4 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 \
  "$bin/epcomm-test-checked" "$bin/survivors-rank-packed.pack" grow --processes --deadline 0.5
step 600 "creation-leaks-nothing-on-the-host" '' env ASAN_OPTIONS=detect_leaks=1 "$bin/epcomm-test-checked" "$bin/test.pack" other-pack --other "$bin/other.pack"
step 600 "python" '' env EMUL_GPUS=4 EPCOMM_PACK="$bin/test.pack" EPCOMM_NODES_PACK="$bin/nodes.pack" EPCOMM_LIBRARY="$PWD/$bin/libepcomm.so" python3 "$here/../../python/epcomm/tests/test_comm.py"
step 600 "example-processes" '' "$bin/example-processes" "$bin/test.pack"
step 600 "example-threads" '' "$bin/example-threads" "$bin/test.pack"
if python3 -c 'import torch' 2> /dev/null; then
  # Steps that do not name the extension test calls through ctypes.
  export PYTHONPATH="$here/../../python/epcomm/src" EPCOMM_LIBRARY="$PWD/$bin/libepcomm.so" EPCOMM_NATIVE=0 OMP_NUM_THREADS=1
  step 600 "torch-extension" '' env EPCOMM_NATIVE="$PWD/$bin/libepcomm_native.so" python3 -m epcomm check "$bin/test.pack" --spawn 2 --device cpu --calls 12 --most 24 --tokens ""
  step 600 "torch-apart" '' python3 -m epcomm check "$bin/test.pack" --spawn 2 --apart --device cpu --calls 2 --most 24 --tokens 1,8
  step 600 "deepep" '' env EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_deepep.py"
  step 600 "deepep-extension" '' env EPCOMM_NATIVE="$PWD/$bin/libepcomm_native.so" EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_deepep.py" TestDeepEP.test_two_ranks
  step 600 "elastic" '' env EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_elastic.py"
  step 600 "shrink" '' env EPCOMM_NATIVE="$PWD/$bin/libepcomm_native.so" EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_shrink.py"
  step 600 "agreement" '' env EPCOMM_NATIVE="$PWD/$bin/libepcomm_native.so" EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_agreement.py"
  step 600 "ep" '' python3 "$here/../../python/epcomm/tests/test_ep.py"
  step 600 "streams" '' env EPCOMM_NATIVE="$PWD/$bin/libepcomm_native.so" EPBENCH_PROGRAM="$PWD/$bin/../epbench" python3 "$here/../../python/epcomm/tests/test_streams.py"
  step 600 "example-torch" '' python3 -m torch.distributed.run --standalone --nproc-per-node 2 "$here/../../../examples/epcomm/decode.py" "$bin/test.pack" cpu
fi
finish
