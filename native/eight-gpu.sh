#!/bin/bash
# What 4 or 8 GPUs of one host must show, in three calls of under ten minutes each, from
# the repository's root, after `make peers-gpu`:
#
#   native/eight-gpu.sh proof race
#                                 verify --stress, 1,000 calls back to back, a lost signal and a
#                                 killed worker; DeepSeek-V3 with DeepEP beside ours, in turns
#   native/eight-gpu.sh tables    five models, uniform, both ops and pairs, merged
#   native/eight-gpu.sh rest      DeepSeek-V3 under four routings and within 24, 16 and 8 SMs;
#                                 other presets at 1, 128 and 8,192 tokens; all but those within
#                                 few SMs merged, rows of the table measured again, and its
#                                 claims widened by what that gave
#
# OUT gets CALL.txt, what was found, and CALL.tar.xz, the runs, in pieces below 16 MiB. KEPT
# is a folder with those of earlier calls, on this or another machine of the same key: what
# they finished is not done again, so that a call that ran out of time may be given again.
# DeepEP is built from PEERS (default .peers, see native/python/workers/run-gpu.sh); where
# it is missing, ours are raced alone. LIMIT (default 570) is when a call stops starting
# steps, in seconds. SLOW, for an emulated driver, stretches the limits of steps. The
# variables below change what is measured:
test $# -gt 0 || { sed -n '2,14p' "$0"; exit 2; }
cd "$(dirname "$0")/.." || exit 1
began=$SECONDS limit=${LIMIT:-570} slow=${SLOW:-1}
work=${WORK:-/tmp/eight-work} out=${OUT:-/tmp/eight-out} kept=${KEPT:-}
backend=${BACKEND:-cuda} part=${PART:-1/8}
models=${MODELS:-deepseek-v3 kimi-k2 qwen3-235b-a22b qwen3-30b-a3b:bf16 gpt-oss-120b:bf16} # MODEL:DTYPE, fp8 where none is given
shape=${SHAPE:---model deepseek-v3}
tokens=${TOKENS:-1,8,32,64,128,1024,4096}
table_tokens=${TABLE_TOKENS:-1,32,128,1024,8192}
other_tokens=${OTHER_TOKENS:-1,128,8192}
dtypes=${DTYPES:-fp8,bf16}
sms=${SMS-24 16 8}
space=${SPACE-native/tables-space.yaml} # small enough to be measured whole in a few seconds
others=${OTHERS:-glm-5 deepseek-v4-pro minimax-m2 qwen3-next-80b-a3b qwen3.5-397b-a17b qwen3-coder-480b-a35b glm-4.5 llama-4-maverick deepseek-v4-flash minimax-m3 longcat-flash nemotron-3-super kimi-k3 step-3 step-3.7-flash ernie-4.5-300b-a47b gpt-oss-20b:bf16 hunyuan-a13b mixtral-8x22b:bf16 deepseek-v2}
mkdir -p "$work" "$out" || exit 1
bin=${BIN:-$PWD/bin}
if test "$backend" != cpu; then # newer programs stay: the build beside `proof` unpacks too, else while they run
  test ! -f bin/peers-gpu.tar.xz || test "$bin/epbench" -nt bin/peers-gpu.tar.xz ||
    { python3 -m tarfile -e bin/peers-gpu.tar.xz "$bin" && touch "$bin/epbench" "$bin/epbench-cuda"; } || exit 1
  test -x "$bin/epbench-cuda" || { echo "bin/epbench-cuda: make peers-gpu packs it"; exit 2; }
fi
export PATH=$bin:$PATH EPBENCH=$bin/epbench EPBENCH_CUDA=${EPBENCH_CUDA:-$bin/epbench-cuda} EPBENCH_CACHE=${EPBENCH_CACHE:-/tmp/epbench-cache}
wheels='import glob, nvidia, os; print(*{os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/**/libnvrtc.so*", recursive=True)})'
for d in /usr/local/cuda/lib64 $(python3 -c "$wheels" 2> /dev/null); do
  test -n "$EPBENCH_NVRTC" || { ls "$d"/libnvrtc.so* > /dev/null 2>&1 && export EPBENCH_NVRTC=$d; }
done
ranks=${RANKS:-$(nvidia-smi -L | wc -l)}
case $ranks in 2 | 4 | 8) ;; *) echo "RANKS: $ranks; 2, 4 or 8 GPUs of one host"; exit 2 ;; esac
# Half of all rows go to one rank. Of two ranks each has half anyway; there one gets all.
routings=${ROUTINGS:-uniform,zipf:1.0,hotrank:$((ranks > 2 ? ranks / 2 : 2)),lognormal:gini=0.25}
if test -n "$kept"; then
  for call in proof race tables rest; do
    ls "$kept/$call".tar.xz.* > /dev/null 2>&1 || continue
    cat "$kept/$call".tar.xz.* | tar -C "$work" -xJf - || exit 1
  done
fi

table="" failed=0 reserve=0 # seconds kept for the steps that end a call
left() { echo $((limit - SECONDS + began - reserve)); }

# step LIMIT NAME COMMAND...: a command of so many seconds at most, its output in NAME.txt;
# exit status 4, undecided rows, is no failure. A step that an earlier call passed is left
# out; where too little time is left the call says so.
step() {
  most=$(($1 * slow)) name=$2 start=$SECONDS word=ok
  shift 2
  test ! -f "$work/$name.passed" || { table+=$(printf '%-26s %s' "$name" "done by an earlier call")$'\n'; return 0; }
  if test "$(left)" -lt 20; then
    table+=$(printf '%-26s %s' "$name" "no time left: give this call again with KEPT=$out")$'\n'
    failed=1
    return 1
  fi
  if declare -F "$1" > /dev/null; then # a function bounds itself
    "$@" > "$work/$name.txt" 2>&1
  else
    timeout -s INT -k 10 $((most < $(left) ? most : $(left))) "$@" > "$work/$name.txt" 2>&1
  fi
  code=$?
  case $code in
    0 | 4) : > "$work/$name.passed" ;;
    *) word="FAILED ($code)" failed=1 ;;
  esac
  table+=$(printf '%-26s %-13s %4ss  %.110s' "$name" "$word" $((SECONDS - start)) "$(grep -E '^all |receipt|rows, |named|Winners|hold' "$work/$name.txt" | tail -1)")$'\n'
  test "$word" = ok || { echo "---- $name"; tail -15 "$work/$name.txt"; return 1; }
}

# tuned SECONDS NAME ARGS...: a sweep into the run directory $work/NAME, gone on with if an
# earlier call began it. One that ended without a table is swept anew by a later call.
tuned() {
  seconds=$1 run=$2
  shift 2
  if test -f "$work/$run/trials.jsonl"; then
    step $((seconds + 60)) "$run" epbench sweep --resume "$work/$run"
  else
    rm -rf "${work:?}/$run"
    step $((seconds + 60)) "$run" epbench sweep --backend "$backend" --ranks "$ranks" --budget "${seconds}s" --precision reduced ${space:+--space "$space"} -o "$work/$run" "$@"
  fi
  if test -f "$work/$run.passed" && ! test -f "$work/$run/table.json"; then
    table+="  $(grep -o 'no table: .*' "$work/$run.txt" | head -1)"$'\n'
    failed=1
    rm -rf "${work:?}/$run" "$work/$run.passed"
  fi
}

# lost drops the signal of one expert; the answer must name who waited for whom.
lost() {
  printf '#!/bin/sh\nexec "%s" --drill drop:1:%s "$@" --deadline %s\n' "$EPBENCH_CUDA" "${DROP:-9}" "${LOST_DEADLINE:-1s}" > "$work/drilled" && chmod +x "$work/drilled"
  EPBENCH_CUDA=$work/drilled timeout $((60 * slow)) epbench bench --backend "$backend" $shape --ranks "$ranks" --dtype bf16 --routing uniform --op dispatch --tokens 8 --rounds 5
  test $? != 0 || { echo "the lost signal went unnoticed"; return 1; }
}
lost_named() { lost 2>&1 | tee "$work/lost-said.txt" | grep -E "expert ${DROP:-9} from rank 1" && echo "the lost signal is named"; }

# killed ends the worker of a sweep once it has measured something; the sweep must go on.
killed() {
  run=$work/killed-run
  rm -rf "$run"
  epbench sweep --backend "$backend" $shape --ranks "$ranks" --dtype bf16 --routing uniform --op dispatch --tokens 8 --budget "${KILLED_SECONDS:-15}s" -o "$run" &
  sweep=$!
  until test -f "$run/trials.jsonl" && test "$(wc -l < "$run/trials.jsonl")" -ge 3; do
    kill -0 $sweep 2> /dev/null || { echo "the sweep ended before its worker could be killed"; return 1; }
    sleep 0.2
  done
  kill -9 $(pgrep -P $sweep)
  wait $sweep
  code=$?
  grep -hom1 'worker died[^"]*' "$run/trials.jsonl" "$run/run.json" && { test $code = 0 || test $code = 4; } && echo "the killed worker is named"
}

# alone: ours without a peer to race.
alone() {
  for dtype in ${dtypes//,/ }; do
    tuned "${RACE_SECONDS:-50}" "race-$dtype" $shape --tokens "$tokens" --dtype "$dtype" --routing uniform --op dispatch,combine,pair
  done
}

# beside: every layout of ours and both kinds of DeepEP's calls, tuned, then in turns.
beside() {
  for dtype in ${dtypes//,/ }; do
    step 200 "race-$dtype" env WORK="$work/race-$dtype" OUT="$work/race-out" LIMIT=195 RANKS="$ranks" DTYPE="$dtype" LIBRARIES="${LIBRARIES:-deepep epbench epbench-rank:packed deepep-ll epbench-masked}" \
      TOKENS="$tokens" LL_TOKENS=1,8,32,64,128 LAUNCHER="${LAUNCHER:-examples/workers/ranks.sh $ranks python3}" SECONDS_EACH="${RACE_SECONDS:-16}" SKEW_SECONDS=0 TURNS="${TURNS:-30}" SWEEP_FLAGS="--precision reduced" native/python/workers/run-gpu.sh sweep turns
    cat "$work/race-$dtype"/*-choose.txt 2> /dev/null
  done
}

proof() {
  step "${VERIFY_SECONDS:-80}" verify-stress epbench verify --backend "$backend" --stress --ranks "$ranks" --part "$part"
  step 45 back-to-back epbench verify --backend "$backend" ${ENDURANCE:-} --ranks "$ranks" --only special=back-to-back,layout=expert
  step 60 lost-signal lost_named
  step 90 killed-worker killed
}

race() {
  if test -n "$building" && wait $building; then beside; else alone; fi
}

# shaped MODEL[:DTYPE]: the flags of its shape.
shaped() {
  case $1 in *:*) ;; *) set -- "$1:fp8" ;; esac
  echo "--model ${1%:*} --dtype ${1#*:}"
}

# A search takes 1.2 s on 2 H100 before the strategy chooses anything. With less time than that
# for each the A/A spread rests on too few rounds, and a run may end without a table. Of the
# claims of one session 25 of 32 held, of those of three 80 to 94 % (docs/search.md).
tables() {
  for model in $models; do
    tuned "${TABLE_SECONDS:-65}" "table-${model%%:*}" $(shaped "$model") --tokens "$table_tokens" --routing "${TABLE_ROUTINGS:-uniform}" --op dispatch,combine,pair ${TABLE_FLAGS---sessions 3}
  done
  rm -f "$work/merged.passed"
  step 30 merged merged
}

# merged puts the tables of all runs there are into one. Those within a bound on SMs stay apart:
# their gains are over other defaults.
merged() {
  rm -f "$work/table.json"
  for t in "$work"/sms-*/table.json; do
    test ! -f "$t" || cp "$t" "$out/$(basename "$(dirname "$t")").json"
  done
  for t in "$work"/table-*/table.json "$work"/routings-*/table.json "$work"/other-*/table.json; do
    test -f "$t" || continue
    if test -f "$work/table.json"; then
      epbench table merge "$work/table.json" "$t" -o "$work/merged.json" > "$work/merge.txt" && mv "$work/merged.json" "$work/table.json" || { cat "$work/merge.txt"; return 1; }
    else
      cp "$t" "$work/table.json"
    fi
  done
  # A machine that was not quiet is an error of lint. The rows are judged by its spread, so they stay.
  cp "$work/table.json" "$out/table.json"
  epbench table lint --table "$work/table.json" || true
}

rest() {
  reserve=$((80 * slow))
  tuned "${ROUTING_SECONDS:-110}" routings-fp8 $shape --tokens "$tokens" --dtype fp8 --routing "$routings" --op dispatch,combine
  tuned "$((${ROUTING_SECONDS:-110} / 2))" routings-bf16 $shape --tokens "$tokens" --dtype bf16 --routing "$routings" --op dispatch
  for n in $sms; do # the smaller space is for all SMs
    space="" tuned "${SM_SECONDS:-10}" "sms-$n" $shape --tokens 1024,4096 --dtype fp8 --routing uniform --op dispatch,combine --max-sms "$n" ${SM_FLAGS:-}
  done
  for model in $others; do
    test "$(left)" -gt 20 || { table+="other presets end before $model: give this call again with KEPT=$out"$'\n'; failed=1; break; }
    tuned "${OTHER_SECONDS:-12}" "other-${model%%:*}" $(shaped "$model") --tokens "$other_tokens" --routing uniform --op dispatch,combine
  done
  reserve=0
  rm -f "$work/merged.passed" "$work/receipt.passed" "$work/widened.passed" # of an earlier call's runs
  step 30 merged merged
  step "${RECEIPT_SECONDS:-60}" receipt epbench table verify --backend "$backend" --table "$work/table.json" --rows "${RECEIPT_ROWS:-16}" -o "$work/receipt.json"
  step 20 widened epbench table widen "$work/table.json" "$work/receipt.json" -o "$out/table.json"
}

# pack brings all runs so far into OUT, in place of what the calls before brought: no pictures, no pages, no programs.
pack() {
  rm -f "$out"/*.tar.xz.*
  tar -C "$work" --exclude plots --exclude '*.html' --exclude build --exclude race-out --exclude drilled --exclude '*.tgz' -cf - . | xz -T0 -3 | split -b 15m -d -a 1 - "$out/$1.tar.xz."
  ls -la "$out"
}

if [[ " $* " == *" race "* ]] && test -d "${PEERS:-.peers}/DeepEP"; then # compiles on the host's cores meanwhile
  LIMIT=300 WORK=$work/build OUT=$work/race-out RANKS=$ranks native/python/workers/run-gpu.sh build > "$work/build.txt" 2>&1 &
  building=$!
fi
for call; do
  case $call in
    proof | race | tables | rest) ;;
    *) echo "proof, race, tables or rest, not $call"; exit 2 ;;
  esac
  { date -u; nvidia-smi -L; git rev-parse HEAD; epbench machine; } > "$work/host-$call.txt" 2>&1
  table=""
  $call
  printf '%s' "$table" | tee "$out/$call.txt"
  cat "$work/host-$call.txt" >> "$out/$call.txt"
  for f in "$work"/race-*/*-choose.txt "$work"/race-*.txt "$work"/receipt.txt "$work"/lost-said.txt "$work"/killed-worker.txt; do
    test ! -f "$f" || { echo "==== ${f#"$work"/}"; tail -60 "$f" | cut -c1-230; } >> "$out/$call.txt"
  done
  pack "$call"
done
exit $failed
