#!/bin/sh
# Proves and times what docs/laboratory.md, section 13, predicts, on 2 GPUs.
#
#   ./speed-gpu.sh OUT [PART...]     ./speed-gpu.sh speed kernels stages
#
#   kernels  right answers, the best of old and new kernels, each new kernel by itself; 5 minutes
#   few      on few SMs, beside a plain copy of the same bytes; 2 minutes
#   pairs    dispatch and combine in a row; 2 minutes
#   models   other models, 1, 128 and 4,096 tokens; 4 minutes
#   stages   where a call's time goes; 1 minute
#   threads  short calls by threads and SMs, every point of decode-space.yaml; 1 minute
#
# Without PART: kernels and few, in one call of at most 9 minutes. OUT holds what is printed,
# and the run directories: all, sms-N, pairs, model-NAME. Times are of the clock chain.
# These variables change what is measured:
BACKEND=${BACKEND:-cuda}
PROBLEM=${PROBLEM:---model deepseek-v3 --ranks 2}
DTYPE=${DTYPE:-fp8} # dispatch_final_home is raced in BF16 too
TOKENS=${TOKENS:-1,8,32,128,1024,4096}
ROUTINGS=${ROUTINGS:-uniform,zipf:1.0,hotrank:2}
SMS=${SMS:-24,16,8}
FEW=${FEW:-1024,4096}      # tokens on few SMs
LARGE=${LARGE:-128,1024,4096} # tokens for kernels of large batches
SMALL=${SMALL:-1,8,32,128} # tokens for kernels of small batches
ALL_SMS=${ALL_SMS:-132}
PRESENT=${PRESENT:-h200x2} # table whose rows the new ones are raced against
BUDGET=${BUDGET:-120s}     # of the sweep over all routings
FEW_BUDGET=${FEW_BUDGET:-25s}
PAIR_BUDGET=${PAIR_BUDGET:-80s}
MODELS=${MODELS:-kimi-k2 qwen3-235b-a22b qwen3-30b-a3b gpt-oss-120b}
MODEL_TOKENS=${MODEL_TOKENS:-1,128,4096}
MODEL_BUDGET=${MODEL_BUDGET:-50s} # of each model
SHORT=${SHORT:-1,8,32} # tokens of the part threads
SHORT_BUDGET=${SHORT_BUDGET:-60s}
SPACE=${SPACE:-$(dirname "$0")/decode-space.yaml}
SWEEP=${SWEEP:-}          # more flags of sweeps
ROUNDS=${ROUNDS:-50}
COPIED=${COPIED:-4096}     # tokens of the plain copy
VERIFY=${VERIFY:---quick}
EPBENCH=${EPBENCH:-./epbench}
WORKER=${WORKER:-./epbench-cuda}
KERNELS=${KERNELS:-dispatch_ll,dispatch_ll_ids,dispatch_final,dispatch_final_home,combine_ll,combine_ll_partial,combine_final,combine_final_partial,combine_final_polled}

test $# -ge 1 || { sed -n '2,16p' "$0"; exit 2; }
out=$1
shift
mkdir -p "$out" || exit
status=0

# step runs a command, keeps what it prints, and says how long it took.
step() {
  name=$1
  shift
  begin=$(date +%s)
  if "$@" >"$out/$name.txt" 2>&1; then
    result=ok
  else
    result="FAILED ($out/$name.txt)"
    status=1
  fi
  printf '%-28s %4d s  %s\n' "$name" $(($(date +%s) - begin)) "$result"
}

# shellcheck disable=SC2086 # the words of $PROBLEM, $VERIFY and $SWEEP are words
{
  # sweep NAME TOKENS ROUTINGS BUDGET FLAGS...: the best kernels, in full and reduced precision.
  sweep() {
    run=$1 tokens=$2 routings=$3 budget=$4
    shift 4
    step "sweep-$run" "$EPBENCH" sweep --backend "$BACKEND" --precision reduced --tokens "$tokens" --routing "$routings" --budget "$budget" \
      "$@" $SWEEP -o "$out/$run"
  }

  # race RUN OPS TOKENS ROUTINGS: winners against the present rows, in the same rounds, with
  # intervals.
  race() {
    for precision in full reduced; do
      step "race-$1-$precision" "$EPBENCH" bench --backend "$BACKEND" $PROBLEM --dtype "$DTYPE" --op "$2" --tokens "$3" --routing "$4" \
        --precision "$precision" --table "$out/$1" --over "$PRESENT" --rounds "$ROUNDS"
    done
  }

  # variant NAME DTYPE OP PRECISION TOKENS CONFIG: a kernel by itself, whoever won.
  variant() {
    step "$1" "$EPBENCH" bench --backend "$BACKEND" $PROBLEM --dtype "$2" --op "$3" --precision "$4" --tokens "$5" --routing uniform \
      --config "$6" --over "$PRESENT" --rounds "$ROUNDS"
  }

  kernels() {
    # Right answers first: every value of every parameter, calls back to back.
    step verify-dispatch "$EPBENCH" verify --backend "$BACKEND" $VERIFY --ranks 2 --only op=dispatch,layout=expert
    step verify-combine "$EPBENCH" verify --backend "$BACKEND" $VERIFY --ranks 2 --only op=combine,layout=expert
    sweep all "$TOKENS" "$ROUTINGS" "$BUDGET" $PROBLEM --dtype "$DTYPE" --op dispatch,combine --kernel "$KERNELS"
    race all dispatch,combine "$TOKENS" "$ROUTINGS"
    all=$ALL_SMS
    for partial in f32:full bf16:reduced; do
      config="combine_ll_partial:partial=${partial%:*},sms=$all,pdl=0"
      variant "ll-${partial%:*}" "$DTYPE" combine "${partial#*:}" "$TOKENS" "$config,threads=512,receivers=0"
      variant "ll-${partial%:*}-divided" "$DTYPE" combine "${partial#*:}" "$LARGE" "$config,threads=768,receivers=12"
      variant "final-${partial%:*}" "$DTYPE" combine "${partial#*:}" "$LARGE" \
        "combine_final_partial:partial=${partial%:*},sms=$all,wait_sms=$((all / 2)),threads=768"
    done
    ids="dispatch_ll_ids:sms=$all,send=512"
    for pdl in 0 1; do
      variant "ids-pdl$pdl" "$DTYPE" dispatch full "$SMALL" "$ids,part=512,threads=512,pdl=$pdl"
    done
    variant ids-large "$DTYPE" dispatch full "$SMALL" "$ids,part=1024,threads=1024,pdl=0"
    home="dispatch_final_home:sms=$all,wait_sms=0,threads=768"
    for team in 1 8; do
      variant "home-fp8-$team" fp8 dispatch full "$LARGE" "$home,scales=row,team=$team"
      variant "home-fp8-tile-$team" fp8 dispatch full "$LARGE" "$home,scales=tile,team=$team"
      variant "home-bf16-$team" bf16 dispatch full "$LARGE" "$home,scales=row,team=$team"
    done
  }

  # Beside each the plain copy of what a rank stores: of dispatch 7 rows a token at home and
  # one away; of combine the mean of what it reads and stores, away one partial sum of BF16,
  # or of f32 two rows; and a copy that reads as much as combine does, 9 or 10 rows.
  few() {
    for n in $(echo "$SMS" | tr , ' '); do
      sweep "sms-$n" "$FEW" uniform "$FEW_BUDGET" $PROBLEM --dtype "$DTYPE" --op dispatch,combine --kernel "$KERNELS" --max-sms "$n"
    done
    step copy-dispatch "$WORKER" copy --sms "$SMS" --home $((7 * COPIED)) --away "$COPIED" --row-bytes 7392
    step copy-combine-bf16 "$WORKER" copy --sms "$SMS" --home $((9 * COPIED / 2)) --away "$COPIED" --row-bytes 14336
    step copy-combine-f32 "$WORKER" copy --sms "$SMS" --home $((9 * COPIED / 2)) --away $((2 * COPIED)) --row-bytes 14336
    step copy-reads-bf16 "$WORKER" copy --sms "$SMS" --home $((8 * COPIED)) --away "$COPIED" --row-bytes 14336
    step copy-reads-f32 "$WORKER" copy --sms "$SMS" --home $((8 * COPIED)) --away $((2 * COPIED)) --row-bytes 14336
  }

  pairs() {
    sweep pairs "$TOKENS" "$ROUTINGS,lognormal:gini=0.25" "$PAIR_BUDGET" $PROBLEM --dtype "$DTYPE" --op pair --kernel "$KERNELS"
    race pairs pair "$TOKENS" uniform
  }

  models() {
    for model in $MODELS; do
      dtype=$DTYPE
      test "$model" != gpt-oss-120b || dtype=bf16 # its hidden size has no FP8 groups
      sweep "model-$model" "$MODEL_TOKENS" uniform,zipf:1.0 "$MODEL_BUDGET" --model "$model" --ranks 2 --dtype "$dtype" --op pair --kernel "$KERNELS"
    done
  }

  # The last warp past a stage: all counts here, everything sent, the last message here.
  stages() {
    ll="threads=512,pdl=0,sms=$ALL_SMS"
    for stage in ready sent arrived; do
      for config in "dispatch_ll_ids:send=512,part=512,$ll" "dispatch_ll:early=1,part=512,pause=0,receivers=0,send=512,$ll"; do
        step "stage-$stage-${config%%:*}" "$EPBENCH" bench --backend "exec:$WORKER --clock span:$stage" $PROBLEM --dtype "$DTYPE" --op dispatch \
          --tokens "$SMALL" --routing uniform --config "$config"
      done
      step "stage-$stage-combine" "$EPBENCH" bench --backend "exec:$WORKER --clock span:$stage" $PROBLEM --dtype "$DTYPE" --op combine \
        --tokens "$SMALL" --routing uniform --config "combine_ll_partial:partial=f32,receivers=0,$ll"
      step "stage-$stage-dispatch_final_home" "$EPBENCH" bench --backend "exec:$WORKER --clock span:$stage" $PROBLEM --dtype "$DTYPE" --op dispatch \
        --tokens "$LARGE" --routing uniform --config "dispatch_final_home:scales=tile,sms=$ALL_SMS,wait_sms=0,threads=768,team=8"
    done
  }

  threads() {
    sweep threads "$SHORT" uniform "$SHORT_BUDGET" $PROBLEM --dtype "$DTYPE" --op dispatch,combine \
      --kernel dispatch_ll,dispatch_ll_ids,combine_ll,combine_ll_partial --strategy grid --space "$SPACE"
  }

  for part in ${*:-kernels few}; do
    case $part in
      kernels | few | pairs | models | stages | threads) $part ;;
      *) echo "$part: use kernels, few, pairs, models, stages or threads"; exit 2 ;;
    esac
  done
}
exit $status
