#!/bin/bash
# Downloads SGLang, vLLM and Megatron-Core, 350 MB, into the folder $1 (default .engines). $1/vllm-tests holds vLLM with
# its binaries. $1/site holds packages that the engines import.
set -euo pipefail
to=${1:-.engines} python=${PYTHON:-python3}
mkdir -p "$to/wheels"
for wheel in sglang==0.5.17 vllm==0.26.0 vllm==0.26.0-tests megatron-core==0.16.1; do
  name=${wheel%%==*} name=${name%-core}
  case $wheel in *-tests) name=$name-tests wheel=${wheel%-tests} ;; esac
  test -d "$to/$name" && continue
  "$python" -m pip download -q --no-deps --only-binary=:all: -d "$to/wheels" "$wheel"
  "$python" - "$to/wheels" "${wheel%%==*}" "$to/$name" << 'UNPACK'
import glob, sys, zipfile
wheels, name, to = sys.argv[1:]
binaries = ("C_stable_libtorch.abi3.so", "deep_gemm/_C.cpython-312-x86_64-linux-gnu.so") if to.endswith("-tests") else ()
with zipfile.ZipFile(glob.glob(f"{wheels}/{name.replace('-', '_')}-*.whl")[0]) as z:
    z.extractall(to, [n for n in z.namelist() if not n.endswith((".so", "/")) or n.endswith(binaries)])
UNPACK
done
test -d "$to/site" && exit
# --no-deps, because pip would install another PyTorch as a dependency
"$python" -m pip install -q --no-compile --target "$to/site" transformers==5.17.0 psutil requests tqdm aiohttp packaging pillow scipy \
  nvidia-ml-py einops pyyaml prometheus-client ninja tiktoken sentencepiece pandas pyarrow
"$python" -m pip install -q --no-compile --no-deps --target "$to/site" torchvision==0.26.0 pydantic pydantic-core annotated-types \
  typing-inspection fastapi starlette uvicorn msgspec pyzmq orjson cachetools dill annotated-doc python-multipart setproctitle \
  pybase64 partial-json-parser interegular cloudpickle cbor2 py-cpuinfo uvloop prometheus-fastapi-instrumentator
