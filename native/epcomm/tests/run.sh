#!/bin/sh
# Every C test of epcomm on the driver that LD_LIBRARY_PATH names; $1 is the folder
# with the programs and packs. Exit status 0 when everything passed.
out=$1
status=0

step() {
  name=$1
  shift
  if timeout 600 "$@" > "$out/last.txt" 2>&1; then
    printf '%-40s ok\n' "$name"
  else
    printf '%-40s FAILED\n' "$name"
    cat "$out/last.txt"
    status=1
  fi
}

for way in "" --processes; do
  for test in calls flight outputs graphs leak; do
    step "$test $way" "$out/epcomm-test" "$out/test.pack" $test $way --calls 12 --replays 30 --most 24
  done
  for test in late never disagree bad-id other-pack options truncated; do
    step "$test $way" "$out/epcomm-test" "$out/test.pack" $test $way --deadline 1 --most 12 --other "$out/other.pack"
  done
done
step "chain --processes" "$out/epcomm-test" "$out/test.pack" chain --processes --calls 1 --replays 1 --most 4
step "killed --processes" "$out/epcomm-test" "$out/test.pack" killed --processes --deadline 1 --most 12
step "other-kind --processes" "$out/epcomm-test" "$out/test.pack" other-kind --processes
# Twice the SMs of the pack: calls of two streams fit beside each other.
step "slots --processes" env EMUL_SMS=8 "$out/epcomm-test" "$out/test.pack" slots --processes --deadline 2
step "any-order --processes" "$out/epcomm-test" "$out/masked.pack" any-order --processes --most 6
step "calls, 4 ranks" env EMUL_GPUS=4 "$out/epcomm-test" "$out/four.pack" calls --processes --calls 6 --most 24
# 4 ranks on 2 nodes: processes on one host, and NVSHMEM's stand-in between the nodes.
for test in calls graphs flight nodes refusals left crashed unfilled; do
  step "$test, 2 nodes" env EMUL_GPUS=4 "$out/epcomm-test" "$out/nodes.pack" $test --processes --calls 40 --replays 40 --most 24 --other "$out/four.pack"
done
# So few tokens that low-latency calls of both routes follow each other on one memory.
for test in calls graphs flight; do
  step "$test of few tokens, 2 nodes" env EMUL_GPUS=4 "$out/epcomm-test" "$out/nodes.pack" $test --processes --calls 200 --replays 100 --most 4
done
step "chain, 2 nodes" env EMUL_GPUS=4 "$out/epcomm-test" "$out/nodes.pack" chain --processes --calls 1 --replays 1 --most 4
for test in never killed; do
  step "$test, 2 nodes" env EMUL_GPUS=4 "$out/epcomm-test" "$out/nodes.pack" $test --processes --deadline 2 --most 12
done
# The emulator switches stacks, which leak detection and stack checks do not follow.
for test in calls graphs late truncated; do
  step "$test, sanitizers" env ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 \
    "$out/epcomm-test-checked" "$out/test.pack" $test --calls 6 --replays 6 --most 12 --deadline 1
done
step "nodes, sanitizers" env EMUL_GPUS=4 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 \
  "$out/epcomm-test-checked" "$out/nodes.pack" nodes --processes --most 12
step "creation leaks nothing on the host" env ASAN_OPTIONS=detect_leaks=1 "$out/epcomm-test-checked" "$out/test.pack" other-pack --other "$out/other.pack"
here=$(dirname "$0")
step "python" env EMUL_GPUS=4 EPCOMM_PACK="$out/test.pack" EPCOMM_NODES_PACK="$out/nodes.pack" EPCOMM_LIBRARY="$PWD/$out/libepcomm.so" python3 "$here/../../python/epcomm/tests/test_comm.py"
step "example, processes" "$out/example-processes" "$out/test.pack"
step "example, threads" "$out/example-threads" "$out/test.pack"
if python3 -c 'import torch' 2> /dev/null; then
  export PYTHONPATH="$here/../../python/epcomm/src" EPCOMM_LIBRARY="$PWD/$out/libepcomm.so" GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
  step "torch" python3 -m epcomm check "$out/test.pack" --spawn 2 --device cpu --calls 12 --most 24 --tokens ""
  step "torch, apart" python3 -m epcomm check "$out/test.pack" --spawn 2 --apart --device cpu --calls 2 --most 24 --tokens 1,8
  step "deepep" env EPBENCH_PROGRAM="$PWD/$out/../epbench" python3 "$here/../../python/epcomm/tests/test_deepep.py"
  step "ep" python3 "$here/../../python/epcomm/tests/test_ep.py"
  step "streams" env EPBENCH_PROGRAM="$PWD/$out/../epbench" python3 "$here/../../python/epcomm/tests/test_streams.py"
  step "example, torch" python3 -m torch.distributed.run --standalone --nproc-per-node 2 "$here/../../../examples/epcomm/decode.py" "$out/test.pack" cpu
fi
exit $status
