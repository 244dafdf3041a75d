#!/bin/bash
# Kills one or two of 8 ranks at each step of a call, $2 times. $1 has epcomm-test and survivors.pack. Further arguments
# name the steps (default: all).
bin=$1 times=$2
shift 2
LIMIT=${LIMIT:-36000} OUT=$bin/lost
. native/steps.sh
export EMUL_GPUS=8

# repeated AT runs the test $times times, or until it fails.
repeated() {
  for ((i = 0; i < times; i++)); do
    "$bin/epcomm-test" "$bin/survivors.pack" lost --processes --deadline 0.2 --victims $((1 + i % 2)) --at "$1" || return
  done
}
export -f repeated
export bin times
for at in ${*:-counts rows between combine halves combine-halves replay}; do
  step 7200 "lost-at-$at-$times-times" '' bash -c "repeated $at"
done
finish
