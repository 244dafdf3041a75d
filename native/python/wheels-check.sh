#!/usr/bin/env bash
# Installs the wheels of the folder DIST into a fresh Python environment. There it runs a sweep and the notebook, and
# makes a pack. FOLDER contains libnvrtc.
set -euo pipefail
[ $# = 2 ] || { echo "usage: $0 DIST FOLDER"; exit 2; }
repository=$(cd "$(dirname "$0")/../.." && pwd)
dist=$(cd "$1" && pwd) nvrtc=$(cd "$2" && pwd)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

python3 -m venv "$home/venv"
"$home/venv/bin/pip" install -q --no-index --no-deps "$dist"/epbench-*"$(uname -m)".whl "$dist"/epcomm-*"$(uname -m)".whl
packages=$("$home/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$packages/nvidia/cu13/lib"
cp "$nvrtc"/libnvrtc*.so* "$packages/nvidia/cu13/lib/"

cd "$home"
clean() { env -i HOME="$home" PATH="$home/venv/bin:/usr/bin:/bin" "$@"; }
clean epbench version
clean epbench start > start.txt
clean epbench sweep -o run --budget 10 --op dispatch --tokens 1 --routing uniform > sweep.txt
clean python "$repository/native/python/epbench/tests/notebook.py" "$repository/examples/notebook.ipynb"
clean epbench pack --embedded --layout masked --model deepseek-v3 --ranks 2 --max-tokens 8 --dtype bf16 -o decode.pack > pack.txt
clean python -m epcomm show decode.pack
test -f "$packages/epcomm/libepcomm_native.so" # only its presence is tested, because it needs PyTorch
echo "wheels: a sweep, a look-up, the notebook and a pack work in a fresh environment"
