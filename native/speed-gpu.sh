#!/bin/sh
# Proves and times the kernels of docs/laboratory.md, section 13, on 2 GPUs in one call of
# at most 9 minutes: those with partial sums, the dispatch that stores its own rows, and
# that whose receivers count.
#
#   ./speed-gpu.sh OUT     ./speed-gpu.sh speed
#
# OUT holds what is printed, and the run directories: all (every kernel, every routing),
# sms-N (on N SMs at most). Times are of the clock chain. These variables change what is
# measured:
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
SWEEP=${SWEEP:-}          # more flags of sweeps
ROUNDS=${ROUNDS:-50}
COPIED=${COPIED:-4096}     # tokens of the plain copy
VERIFY=${VERIFY:---quick}
EPBENCH=${EPBENCH:-./epbench}
WORKER=${WORKER:-./epbench-cuda}
KERNELS=${KERNELS:-dispatch_ll,dispatch_ll_ids,dispatch_final,dispatch_final_home,combine_ll,combine_ll_partial,combine_final,combine_final_partial}

test $# -eq 1 || { sed -n '2,11p' "$0"; exit 2; }
out=$1
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
  # Right answers first: every value of every parameter, calls back to back.
  step verify-dispatch "$EPBENCH" verify --backend "$BACKEND" $VERIFY --ranks 2 --only op=dispatch,layout=expert
  step verify-combine "$EPBENCH" verify --backend "$BACKEND" $VERIFY --ranks 2 --only op=combine,layout=expert

  # The best of old and new kernels, in full and in reduced precision.
  step sweep "$EPBENCH" sweep --backend "$BACKEND" $PROBLEM --dtype "$DTYPE" --op dispatch,combine --precision reduced --kernel "$KERNELS" \
    --tokens "$TOKENS" --routing "$ROUTINGS" --budget "$BUDGET" $SWEEP -o "$out/all"

  # The winners against the present rows, in the same rounds, with intervals.
  for precision in full reduced; do
    step "race-$precision" "$EPBENCH" bench --backend "$BACKEND" $PROBLEM --dtype "$DTYPE" --op dispatch,combine --tokens "$TOKENS" --routing "$ROUTINGS" \
      --precision "$precision" --table "$out/all" --over "$PRESENT" --rounds "$ROUNDS"
  done

  # Every new kernel on all SMs, also those that did not win the sweep.
  variant() {
    step "$1" "$EPBENCH" bench --backend "$BACKEND" $PROBLEM --dtype "$2" --op "$3" --precision "$4" --tokens "$5" --routing uniform \
      --config "$6" --over "$PRESENT" --rounds "$ROUNDS"
  }
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
  home="dispatch_final_home:sms=$all,wait_sms=$((all * 3 / 8)),threads=768"
  variant home-fp8 fp8 dispatch full "$LARGE" "$home,scales=row"
  variant home-fp8-tile fp8 dispatch full "$LARGE" "$home,scales=tile"
  variant home-bf16 bf16 dispatch full "$LARGE" "$home,scales=row"

  # Few SMs, and beside each the plain copy of what a rank stores: of dispatch 7 rows a token
  # at home and one away; of combine the mean of what it reads and stores, away one
  # partial sum of BF16, or of f32 two rows.
  for n in $(echo "$SMS" | tr , ' '); do
    step "sms-$n" "$EPBENCH" sweep --backend "$BACKEND" $PROBLEM --dtype "$DTYPE" --op dispatch,combine --precision reduced --kernel "$KERNELS" \
      --tokens "$FEW" --routing uniform --max-sms "$n" --budget "$FEW_BUDGET" $SWEEP -o "$out/sms-$n"
  done
  step copy-dispatch "$WORKER" copy --sms "$SMS" --home $((7 * COPIED)) --away "$COPIED" --row-bytes 7392
  step copy-combine-bf16 "$WORKER" copy --sms "$SMS" --home $((9 * COPIED / 2)) --away "$COPIED" --row-bytes 14336
  step copy-combine-f32 "$WORKER" copy --sms "$SMS" --home $((9 * COPIED / 2)) --away $((2 * COPIED)) --row-bytes 14336
}
exit $status
