#!/bin/bash
# Tests on 2 GPUs: calls that do not end, call numbers that wrap around, and kernels and dtypes that share memory. Run
# `make faults-gpu` first, on a host with a compiler. BIN is the folder of the files that make wrote. SOAK is
# the number of seconds of each layout's soak test.
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
bin=${BIN:-bin} t=${BIN:-bin}/epcomm/epcomm-test

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for pack in "$bin"/packs/every-*.pack; do
  layout=$(basename "$pack" .pack)
  step 60 "mixed-$layout" '^mixed|rank' $t "$pack" mixed --processes --calls 1000
  step 60 "wrap-$layout" '^wrap|rank' $t "$pack" wrap --processes --calls 1000
  step 60 "spoiled-$layout" '^spoiled|rank' $t "$pack" spoiled --processes --deadline 0.5
done
for test in bad-id arguments late killed; do
  step 30 "$test" "^$test|rank" $t "$bin/packs/every-expert.pack" $test --processes --deadline 0.5 --most 12
done
for pack in "$bin"/packs/every-*.pack; do
  step $((${SOAK:-20} + 30)) "soak-$(basename "$pack" .pack)" '^soak|calls|rank' $t "$pack" soak --processes --deadline 0.25 --seconds "${SOAK:-20}"
done
finish
