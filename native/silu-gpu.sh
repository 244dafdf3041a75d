#!/bin/sh
# Verifies and times op activation (SwiGLU between the experts' matrix products) on one GPU, in about a minute.
#
#   ./silu-gpu.sh OUT [BUDGET]     ./silu-gpu.sh silu 40s
#
# OUT is the run directory of the sweep, and BUDGET is the time of the sweep. The script writes the results to
# OUT/activation.txt. They are the winners, and how close each comes to the memory limit. The limit is given at the
# nominal speed of the GPU's memory and at MEMORY GB/s. One rank with 32 experts stands for one of 8 ranks with 256
# experts: with T tokens a rank and top-8, both receive 8 T rows. These variables change the measurements:
BACKEND=${BACKEND:-cuda}
MODEL=${MODEL:-deepseek-v3}
EXPERTS=${EXPERTS:-32}
TOKENS=${TOKENS:-16,512,4096}
DTYPES=${DTYPES:-bf16,fp8,mxfp4,nvfp4}
MEMORY=${MEMORY:-4300}
EPBENCH=${EPBENCH:-./epbench}

test $# -ge 1 || { sed -n '2,10p' "$0"; exit 2; }
out=$1
problem="--backend $BACKEND --op activation --model $MODEL --ranks 1 --experts $EXPERTS --routing uniform"

"$EPBENCH" verify --backend "$BACKEND" --quick --ranks 1 --only op=activation || exit
# shellcheck disable=SC2086 # $problem holds several words
"$EPBENCH" sweep $problem --dtype "$DTYPES" --tokens "$TOKENS" --budget "${2:-40s}" -o "$out" >"$out.txt" || exit
mv "$out.txt" "$out/sweep.txt"
{
  "$EPBENCH" report "$out" --only winners,memory --no-html
  "$EPBENCH" report "$out" --only memory --memory "$MEMORY" --no-html
  # shellcheck disable=SC2086
  "$EPBENCH" bench $problem --dtype nvfp4 --tokens 512 --config columns=interleaved
} >"$out/activation.txt" || exit
cat "$out/activation.txt"
