#!/bin/bash
# What epcomm must show on 2 GPUs about calls that do not end and numbers that do, from the
# repository's root, after `make faults-gpu` on a host with a compiler. OUT and LIMIT are those of
# native/steps.sh. SOAK: seconds for each layout, 30 unless given.
cd "$(dirname "$0")/../.." || exit 1
. native/steps.sh
t=bin/epcomm/epcomm-test

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for pack in bin/packs/every-*.pack; do
  layout=$(basename "$pack" .pack)
  step 120 "wrap-$layout" '^wrap|rank' $t "$pack" wrap --processes --calls 340     # 1,020 calls with each kernel
  step 120 "spoiled-$layout" '^spoiled|rank' $t "$pack" spoiled --processes --deadline 1
  step $((${SOAK:-30} + 60)) "soak-$layout" '^soak|calls|rank' $t "$pack" soak --processes --deadline 1 --seconds "${SOAK:-30}"
done
for test in bad-id arguments late killed; do
  step 60 "$test" "^$test|rank" $t bin/packs/every-expert.pack $test --processes --deadline 1 --most 12
done
finish
