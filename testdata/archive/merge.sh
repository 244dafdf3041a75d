#!/bin/sh
# Merges the run directories of the archives into the embedded tables, in the order below:
# merge.sh EPBENCH OUT writes OUT/h200x4.json, OUT/h200x2.json and OUT/h100x2.json.
set -e
export LC_ALL=C
epbench=$(realpath "$1") here=$(realpath "$(dirname "$0")")
mkdir -p "$2" && cd "$2"
tar xf "$here/h200-2026-11-21-tiles.tar.xz"
tar xf "$here/h200-2026-11-21-combine.tar.xz"
tar xf "$here/h200-2026-11-21-presets.tar.xz"
tar xf "$here/h200x2-2026-11-23.tar.xz"
tar xf "$here/h200x2-2026-11-24-layouts.tar.xz"
tar xf "$here/h100x2-2026-11-23.tar.xz"
tar xf "$here/h100x2-2026-11-24-layouts.tar.xz"
tar xf "$here/h100x2-2026-11-25-pairs.tar.xz"
tar xf "$here/h100x2-2026-11-25-complete.tar.xz"

# merge TABLE RUN...: the rows of the runs. The first one is merged with itself, which splits
# its rows by token counts.
merge() {
	table=$1
	"$epbench" table merge "$2" "$2" -o "$table" --format csv > /dev/null
	shift 2
	for run; do
		"$epbench" table merge "$table" "$run" -o next.json --format csv > /dev/null
		mv next.json "$table"
	done
}

# fallback TABLE: where no row matches, the row of another routing class or shape answers.
fallback() {
	"$epbench" table fallback "$1" --fields routing,top_k,experts,hidden -o next.json
	mv next.json "$1"
}

a=h200-tiles b=h200-combine c=h200-presets d=h200x2-whole e=h200x2-layouts f=h100x2-layouts
merge h200x4.json $a/all \
	$a/qwen3-235b-a22b $a/qwen3-235b-a22b-mid $a/qwen3-30b-a3b $a/qwen3-30b-a3b-mid \
	$a/mixtral-8x7b $a/mixtral-8x7b-mid $a/gpt-oss-120b $b/gpt-oss-120b-mid \
	$a/kimi-bf16 $a/kimi-k2 $a/kimi-k2-mid $a/qwen3-coder-480b-a35b $a/glm-4.5 $a/qwen3.5-397b-a17b \
	$b/deepseek-v3-combine $b/qwen3-235b-a22b-combine $b/qwen3-30b-a3b-combine $b/kimi-k2-combine \
	$b/mixtral-8x7b-combine $b/gpt-oss-120b-combine $b/glm-4.5-combine $b/qwen3-coder-480b-a35b-combine \
	$c/minimax-m2 $b/qwen3.5-397b-a17b-combine $b/glm-5 \
	$c/models/* $c/pairs
# The sweep of DeepSeek-V3 on 2 GPUs comes first: the kernels of the others' are older, and
# theirs of that model have nothing to add. Of layout rank only BF16 is in it: FP8 was tuned
# for tokens that the caller cast, and who asks a table cannot say how his tokens come.
merge h200x2.json $d/two-deepseek-v3 \
	$a/two-qwen3-235b-a22b $a/two-qwen3-30b-a3b $a/two-kimi-k2 $a/two-mixtral-8x7b $b/two-gpt-oss-120b \
	$c/two-kimi-k2-combine $b/two-gpt-oss-120b-again $b/two-qwen3-30b-a3b-combine \
	$b/two-qwen3-235b-a22b-combine $c/two-mixtral-8x7b-combine \
	$e/flashinfer-bf16/deepseek-v3-epbench-rank
# The sweeps with pairs come first. Those of every config follow: their runs have timed the
# choices of the first beside their own, so that a row stays only where the two tie. A short
# sweep adds further token counts of DeepSeek-V3; that of every config has the last word on the
# rows that the short one took.
g=h100x2-pairs w=h100x2-complete
merge h100x2.json $g/deepseek-v3 $g/kimi-k2 $g/qwen3-235b-a22b $g/qwen3-30b-a3b $g/gpt-oss-120b \
	$w/deepseek-v3 $w/kimi-k2 $w/qwen3-235b-a22b $w/qwen3-30b-a3b $w/gpt-oss-120b \
	h100x2/deepseek-v3 $w/deepseek-v3 $f/masked/deepseek-v3-epbench-masked
# Claims reach as far as what other hosts measured of the same rows.
"$epbench" table widen h100x2.json $g/*/receipt.json $w/receipt-d.json $w/receipt-g.json "$here/h100x2-2026-11-26-receipt.json" \
	"$here/h100x2-2026-11-26-aligned-receipt.json" "$here/h100x2-2026-11-26-evening-receipt.json" \
	"$here/h100x2-2026-11-26-night-receipt.json" "$here/h100x2-2026-11-27-receipt.json" "$here/h100x2-2026-11-27-late-receipt.json" -o next.json --format csv > /dev/null
mv next.json h100x2.json
"$epbench" table widen h200x2.json "$here/h200x2-2026-11-28-receipt.json" -o next.json --format csv > /dev/null
mv next.json h200x2.json
fallback h200x4.json
fallback h200x2.json
fallback h100x2.json
