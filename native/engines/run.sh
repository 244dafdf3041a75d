#!/bin/bash
# Tests SGLang, vLLM and Megatron-Core on two GPUs, with epcomm.deepep in place of DeepEP. ENGINES_EMULATED=1 needs no
# GPU. Run native/engines/fetch.sh and `make epcomm-native` first. Run all commands from the repository's root.
#
#   native/engines/run.sh [sglang vllm megatron]
#   VLLM_TESTS=checkout-of-vllm native/engines/run.sh vllm-tests    vLLM's own tests of DeepEP, see vllm_tests.py
#   ENGINES_CONTROL=1 PYTHONPATH=folder-of-another-deep_ep native/engines/run.sh sglang
LIMIT=${LIMIT:-1800}
. native/steps.sh
programs=${EPCOMM_OUT:-bin/epcomm} engines=${ENGINES:-.engines} python=$PWD/native/python/epcomm
export EPCOMM_LIBRARY=${EPCOMM_LIBRARY:-$PWD/$programs/libepcomm.so} EPCOMM_NATIVE=${EPCOMM_NATIVE:-$PWD/$programs/libepcomm_native.so}
export EPBENCH_PROGRAM=${EPBENCH_PROGRAM:-$PWD/$programs/../epbench} EPCOMM_DEADLINE=${EPCOMM_DEADLINE:-30} PYTHONWARNINGS=ignore
export VLLM_LOGGING_LEVEL=WARNING VLLM_NO_USAGE_STATS=1 VLLM_HOST_IP=127.0.0.1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false
ours=$python/shim:$python/src
if [ "${ENGINES_EMULATED:-}" = 1 ]; then
  ours=$python/tests/emulated:$ours
  export EPCOMM_MAX_TOKENS=64 OMP_NUM_THREADS=1
fi
test "${ENGINES_CONTROL:-}" != 1 || ours=$PYTHONPATH
program() { case $1 in vllm-tests) echo vllm_tests.py ;; *) echo "$1_layers.py" ;; esac; }
port=29611
for name in ${*:-sglang vllm megatron}; do
  port=$((port + 10))
  step 400 "$name" '^TOTAL' env PYTHONPATH="$ours:native/engines:$engines/$name:$engines/site" "${PYTHON:-python3}" "native/engines/$(program "$name")" $port
done
finish
