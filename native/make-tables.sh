#!/bin/sh
# Sweeps model shapes on this machine and merges what was chosen into one table.
#
#   ./make-tables.sh OUT BUDGET MODEL...     ./make-tables.sh tables 1h deepseek-v3 qwen3-235b-a22b
#
# BUDGET is the time of each model's sweep. OUT/MODEL is its run directory,
# OUT/table.json the merged table, OUT/receipt.json what measuring rows of it
# again gave. Started again, it resumes what was interrupted and leaves what is
# done. These variables change what is swept:
BACKEND=${BACKEND:-cuda}
RANKS=${RANKS:-0}
TOKENS=${TOKENS:-1,8,32,128,512,2048,8192}
DTYPES=${DTYPES:-fp8,bf16}
# The last is a fit of real text: log-normal popularity, with the Gini coefficient
# that DODOCO (arXiv 2605.20982) found in DeepSeek-V2-Lite and Qwen3.5.
ROUTINGS=${ROUTINGS:-uniform,zipf:1.0,hotrank:4,lognormal:gini=0.25}
# auto measures a space whole where its share of the time is enough.
STRATEGY=${STRATEGY:-auto}
EPBENCH=${EPBENCH:-./epbench}

test $# -ge 3 || { sed -n '2,5p' "$0"; exit 2; }
out=$1
budget=$2
shift 2
mkdir -p "$out" || exit 1

for model; do
  run=$out/$model
  # An interrupted sweep leaves a table too, and the time zero for its end.
  test -f "$run/table.json" && ! grep -q '"finished": "0001-' "$run/run.json" && continue
  if test -d "$run"; then
    "$EPBENCH" sweep --resume "$run" # with the flags it was begun with
  else
    "$EPBENCH" sweep --backend "$BACKEND" --model "$model" --ranks "$RANKS" --tokens "$TOKENS" --dtype "$DTYPES" \
      --routing "$ROUTINGS" --precision reduced --strategy "$STRATEGY" --budget "$budget" -o "$run"
  fi || exit
done

rm -f "$out/table.json"
for model; do
  if test -f "$out/table.json"; then
    "$EPBENCH" table merge "$out/table.json" "$out/$model" -o "$out/merged.json" >"$out/merge-$model.txt" &&
      mv "$out/merged.json" "$out/table.json"
  else
    cp "$out/$model/table.json" "$out/table.json"
  fi || exit
done
"$EPBENCH" table lint --table "$out/table.json" &&
  "$EPBENCH" table verify --backend "$BACKEND" --table "$out/table.json" -o "$out/receipt.json"
