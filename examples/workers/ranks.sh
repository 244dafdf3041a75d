#!/bin/sh
# ranks.sh N COMMAND starts COMMAND for N ranks on this host:
#   ranks.sh 3 python3 examples/workers/toy.py
n=$1
shift
pids=""
for r in $(seq 0 $((n - 1))); do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=$n "$@" &
  pids="$pids $!"
done
status=0
for pid in $pids; do
  wait "$pid" || status=$?
done
exit $status
