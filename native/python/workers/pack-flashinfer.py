"""Takes out of FlashInfer's wheel what its one-sided all-to-all needs, for a GPU host that
can install nothing: 60 MB and twenty further packages become 2 MB.

    pip download --no-deps flashinfer-python==0.7.2 apache-tvm-ffi nvidia-ml-py
    pack-flashinfer.py .peers/flashinfer *.whl

The other two wheels are unpacked whole. FlashInfer's __init__ files import everything, so
that those on the way are left empty. run-gpu.sh puts the result on PYTHONPATH.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import zipfile

PYTHON = ("version.py", "_build_meta.py", "api_logging.py", "compilation_context.py", "cuda_utils.py", "tllm_enums.py", "utils.py", "jit/core.py", "jit/comm.py",
          "jit/cpp_ext.py", "jit/env.py", "jit/_cuda_architecture.py", "jit/spdlog.py", "jit/utils.py", "comm/*.py")
EMPTY = ("jit/__init__.py", "comm/__init__.py")
INCLUDES = ("csrc/nv_internal", "csrc/nv_internal/include", "csrc", "include", "spdlog")
SOURCES = ("csrc/trtllm_moe_alltoall.cu", "csrc/nv_internal/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu",
           *("csrc/nv_internal/cpp/common/%s.cpp" % f for f in ("envUtils", "tllmException", "logger", "stringUtils")))


def closure(data):
    """The sources and every header of the wheel that they include."""
    found, todo = set(), [data / s for s in SOURCES]
    while todo:
        f = todo.pop().resolve()
        if f in found:
            continue
        found.add(f)
        for name in re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', f.read_text()):
            todo += [d / name for d in (f.parent, *(data / i for i in INCLUDES)) if (d / name).is_file()][:1]
    return found


def pack(source, target):
    """Copies the part of an unpacked FlashInfer."""
    files = {f.resolve() for pattern in PYTHON for f in source.glob(pattern)} | closure(source / "data")
    for f in sorted(files):
        to = target / f.relative_to(source.resolve())
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f, to)
    for name in EMPTY:
        (target / name).write_text("")
    (target / "__init__.py").write_text("from .version import __version__\n")


def main(target, wheels):
    for wheel in wheels:
        with tempfile.TemporaryDirectory() as d, zipfile.ZipFile(wheel) as z:
            whole = not pathlib.Path(wheel).name.startswith("flashinfer")
            z.extractall(target if whole else d)
            if not whole:
                pack(pathlib.Path(d) / "flashinfer", target / "flashinfer")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
