#!/bin/sh
# Sweeps model shapes on this machine and merges what was chosen into one table.
#
#   ./make-tables.sh OUT BUDGET MODEL...     ./make-tables.sh tables 1h deepseek-v3 qwen3-235b-a22b
#
# BUDGET is the time of each model's sweep. OUT/MODEL is its run directory,
# OUT/table.json the merged table, OUT/receipt.json what measuring rows of it
# again gave. Started again, it resumes what was interrupted or killed and leaves what is
# done. With LIMIT, in seconds, it ends by itself about then, with a table of what is
# finished; KEPT, the OUT of such a call on a machine of the same key, is gone on with.
# These variables change what is swept:
BACKEND=${BACKEND:-cuda}
RANKS=${RANKS:-0}
TOKENS=${TOKENS:-1,8,32,128,512,2048,8192}
DTYPES=${DTYPES:-fp8,bf16}
# The last is a fit of real text: log-normal popularity, with the Gini coefficient
# that DODOCO (arXiv 2605.20982) found in DeepSeek-V2-Lite and Qwen3.5.
ROUTINGS=${ROUTINGS:-uniform,zipf:1.0,hotrank,lognormal:gini=0.25}
# auto measures a space whole where its share of the time is enough.
STRATEGY=${STRATEGY:-auto}
SWEEP=${SWEEP:-} # more flags of the sweeps, such as --space tables-space.yaml
EPBENCH=${EPBENCH:-./epbench}
LIMIT=${LIMIT:-}
KEPT=${KEPT:-}

test $# -ge 3 || { sed -n '2,5p' "$0"; exit 2; }
out=$1
budget=$2
shift 2
mkdir -p "$out" || exit 1
began=$(date +%s)
if test -n "$KEPT"; then
  for model; do
    test -d "$out/$model" || ! test -d "$KEPT/$model" || { cp -r "$KEPT/$model" "$out/$model" && chmod -R u+w "$out/$model"; } || exit 1
  done
fi

# bounded ARGS...: epbench ARGS, interrupted 20 s before LIMIT: time for what is written then.
bounded() {
  if test -z "$LIMIT"; then "$EPBENCH" "$@"; return; fi
  seconds=$((LIMIT - 20 - $(date +%s) + began))
  test "$seconds" -gt 0 || { echo "$1: no time left within LIMIT=$LIMIT; give the same command again" >&2; return 130; }
  timeout -s INT -k 15 "$seconds" "$EPBENCH" "$@"
}

# ended RUN: an interrupted sweep leaves a table too, and the time zero for its end.
ended() { test -f "$1/table.json" && ! grep -q '"finished": "0001-' "$1/run.json"; }

for model; do
  run=$out/$model
  ended "$run" && continue
  code=0
  if test -f "$run/trials.jsonl"; then
    bounded sweep --resume "$run" || code=$? # with the flags it was begun with
  else
    rm -rf "$run" # killed before it measured anything
    # shellcheck disable=SC2086 # the words of $SWEEP are words
    bounded sweep --backend "$BACKEND" --model "$model" --ranks "$RANKS" --tokens "$TOKENS" --dtype "$DTYPES" \
      --routing "$ROUTINGS" --precision reduced --strategy "$STRATEGY" --budget "$budget" $SWEEP -o "$run" || code=$?
  fi
  case $code in
    0 | 4) ;; # 4: this model has no table, others may have one
    124 | 130 | 137) test -n "$LIMIT" || exit "$code"; break ;;
    *) exit "$code" ;;
  esac
done

rm -f "$out/table.json"
unfinished=""
for model; do
  ended "$out/$model" || unfinished="$unfinished $model"
  test -f "$out/$model/table.json" || continue
  if test -f "$out/table.json"; then
    "$EPBENCH" table merge "$out/table.json" "$out/$model" -o "$out/merged.json" >"$out/merge-$model.txt" &&
      mv "$out/merged.json" "$out/table.json"
  else
    cp "$out/$model/table.json" "$out/table.json"
  fi || exit
done
test -z "$unfinished" || { echo "not finished:$unfinished. Give the same command again, or with KEPT=$out elsewhere."; exit 4; }
"$EPBENCH" table lint --table "$out/table.json" &&
  bounded table verify --backend "$BACKEND" --table "$out/table.json" -o "$out/receipt.json"
