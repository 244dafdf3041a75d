#!/bin/sh
# Sweeps model shapes on this machine and merges the tables of all sweeps into one table.
#
#   ./make-tables.sh OUT BUDGET MODEL...     ./make-tables.sh tables 1h deepseek-v3 qwen3-235b-a22b
#
# BUDGET is the time of each model's sweep. OUT/table.json is the merged table. The script then measures rows of this
# table again and writes the result to OUT/receipt.json. If you start the script again, it resumes interrupted sweeps.
# If LIMIT is set, the script ends after about LIMIT seconds. KEPT may name a folder that an earlier start
# wrote (its OUT) on a machine of the same kind. The script copies the sweeps of KEPT and continues them.
BACKEND=${BACKEND:-cuda}
RANKS=${RANKS:-0}
TOKENS=${TOKENS:-1,8,32,128,512,2048,8192}
DTYPES=${DTYPES:-fp8,bf16}
# Routings of DeepSeek-V2-Lite and Qwen3.5 have the Gini coefficient 0.25 (DODOCO, arXiv 2605.20982).
ROUTINGS=${ROUTINGS:-uniform,zipf:1.0,hotrank,lognormal:gini=0.25}
STRATEGY=${STRATEGY:-auto}
SWEEP=${SWEEP:-} # more flags, such as --space tables-space.yaml
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

# bounded ARGS... runs epbench ARGS and interrupts it 20 s before LIMIT.
bounded() {
  if test -z "$LIMIT"; then "$EPBENCH" "$@"; return; fi
  seconds=$((LIMIT - 20 - $(date +%s) + began))
  test "$seconds" -gt 0 || { echo "$1: no time left within LIMIT=$LIMIT; give the same command again" >&2; return 130; }
  timeout -s INT -k 15 "$seconds" "$EPBENCH" "$@"
}

# ended RUN succeeds if the sweep has ended.
ended() { test -f "$1/table.json" && ! grep -q '"finished": "0001-' "$1/run.json"; }

for model; do
  run=$out/$model
  ended "$run" && continue
  code=0
  if test -f "$run/trials.jsonl"; then
    bounded sweep --resume "$run" || code=$? # the run directory has the flags
  else
    rm -rf "$run" # an earlier start was killed before it measured anything
    # shellcheck disable=SC2086 # $SWEEP holds several words
    bounded sweep --backend "$BACKEND" --model "$model" --ranks "$RANKS" --tokens "$TOKENS" --dtype "$DTYPES" \
      --routing "$ROUTINGS" --precision reduced --strategy "$STRATEGY" --budget "$budget" $SWEEP -o "$run" || code=$?
  fi
  case $code in
    0 | 4) ;; # 4: no table for this model
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
test -z "$unfinished" || { echo "not finished:$unfinished. Give the same command again. To continue in another folder, set KEPT=$out."; exit 4; }
"$EPBENCH" table lint --table "$out/table.json" &&
  bounded table verify --backend "$BACKEND" --table "$out/table.json" -o "$out/receipt.json"
