#!/bin/sh
# Measures every config of a search space for each of several problems. A problem is an operation with a model's
# shape, a token count and a routing. `epbench replay` can replay searches from the recordings.
#
#   ./record-truth.sh OUT SECONDS [FIRST]     ./record-truth.sh truth 540 1
#
# For each problem the script writes to OUT a recording (NAME.rounds.gz, 20 to 120 KB), run.json and table.json. It
# ends before SECONDS have passed. Then it prints the number of the next problem, which you pass as FIRST to the next
# start. It skips problems whose recordings are in OUT or in KEPT. These variables change the measurements:
EPBENCH=${EPBENCH:-./epbench}
BACKEND=${BACKEND:-cuda}
RANKS=${RANKS:-2}
SPACE=${SPACE:-$(dirname "$0")/truth-space.yaml}
KEPT=${KEPT:-}       # a folder with recordings of earlier starts
PROBLEMS=${PROBLEMS:-}  # a file with lines MODEL OP DTYPE TOKENS ROUTING, used instead of the problems below
STRATEGY=${STRATEGY:-grid}  # grid:1000 spends more time on the configs that may be the fastest
FLAGS=${FLAGS:-}     # more flags of sweep

test $# -ge 2 || { sed -n '2,5p' "$0"; exit 2; }
out=$1
seconds=$2
first=${3:-1}
mkdir -p "$out" || exit 1
began=$(date +%s)
longest=45

# problems prints the problems, the most important first.
problems() {
  for routing in uniform zipf:1.0; do
    for tokens in 128 1024 32 4096 1; do
      echo "deepseek-v3 dispatch fp8 $tokens $routing"
      echo "deepseek-v3 combine fp8 $tokens $routing"
      echo "qwen3-235b-a22b dispatch bf16 $tokens $routing"
      echo "qwen3-235b-a22b combine bf16 $tokens $routing"
    done
  done
}

# done_already MODEL OP DTYPE TOKENS ROUTING succeeds if the file run.json of this problem is in OUT or in KEPT.
done_already() {
  mark=$(echo "$*" | tr ' :' '--').run.json
  test -f "$out/$mark" || { test -n "$KEPT" && test -f "$KEPT/$mark"; }
}

if test -n "$PROBLEMS"; then cat "$PROBLEMS"; else problems; fi >"$out/problems.txt"
n=0
while read -r model op dtype tokens routing; do
  n=$((n + 1))
  test "$n" -ge "$first" || continue
  done_already "$model" "$op" "$dtype" "$tokens" "$routing" && continue
  start=$(date +%s)
  left=$((seconds - (start - began)))
  if test "$left" -lt "$longest"; then
    echo "$left s left: continue with FIRST=$n" | tee -a "$out/truth.log"
    exit 0
  fi
  run=$(mktemp -d)
  # --precision reduced adds a second search for a combine. With exit code 4 the times were too noisy for a table, but
  # all configs were measured and recorded.
  # shellcheck disable=SC2086
  "$EPBENCH" sweep --backend "$BACKEND" --model "$model" --ranks "$RANKS" --op "$op" --dtype "$dtype" --tokens "$tokens" \
      --routing "$routing" --precision reduced --strategy "$STRATEGY" --space "$SPACE" --profile $FLAGS -o "$run/run" </dev/null >"$run/said.txt" 2>&1
  code=$?
  if { test "$code" = 0 || test "$code" = 4; } && "$EPBENCH" replay save "$run/run" -o "$out" >>"$run/said.txt" 2>&1
  then
    test ! -f "$run/run/table.json" || cp "$run/run/table.json" "$out/${mark%.run.json}.table.json"
    # run.json marks a finished problem, so it comes last.
    cp "$run/run/run.json" "$out/.$mark" && mv "$out/.$mark" "$out/$mark"
    verdict=whole
  else
    verdict=failed
  fi
  took=$(($(date +%s) - start))
  test "$took" -gt "$longest" && longest=$took
  { echo "== $n $model $op $dtype $tokens $routing: $verdict in $took s"; grep -v '^$' "$run/said.txt" | tail -25; } >>"$out/truth.log"
  echo "$n $model $op $dtype $tokens $routing: $verdict in $took s"
  rm -rf "$run"
done <"$out/problems.txt"
