#!/bin/bash
# Tests lost ranks on 2 GPUs: kills one of two processes at each step of a call, then brings ranks back. Run `make
# faults-gpu` first, on a host with a compiler. Environment variables:
#
#   BIN       folder with the programs that `make` built
#   TIMES     how often each step is repeated
#   SOAK      seconds in which ranks are killed and replaced
#   DEADLINE  longest wait of a kernel, in seconds
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
bin=${BIN:-bin} t=${BIN:-bin}/epcomm/epcomm-test pack=${BIN:-bin}/packs/survivors.pack

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for ((i = 0; i < ${TIMES:-3}; i++)); do
  for at in counts rows between combine halves combine-halves replay; do
    step 30 "lost-at-$at-$i" 'shrunk|rank' $t "$pack" lost --processes --deadline ${DEADLINE:-0.5} --at $at
  done
done
for test in grow refuse; do
  step 60 "$test" "^$test|rank" $t "$pack" $test --processes --deadline ${DEADLINE:-0.5}
done
step $((${SOAK:-60} + 60)) "killing" 'killed|rank' $t "$pack" killing --processes --deadline ${DEADLINE:-0.5} --seconds "${SOAK:-60}"
finish
