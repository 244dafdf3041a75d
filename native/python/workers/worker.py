"""A worker for libraries that PyTorch programs call, with one process for each rank:

    epbench sweep --backend "launch:torchrun --nproc-per-node 2 native/python/workers/worker.py deepep" ...

worker.py LIBRARY [MODE], one of:
    deepep [normal|ll|own]  DeepEP V1
    deepep2 [graph|counts]  DeepEP V2
    nccl [padded|counts]    all-to-all of PyTorch
    flashinfer              the one-sided all-to-all of FlashInfer
    flashinfer_push         a layer of FlashInfer for SM90, in BF16
    flashinfer_pull         a layer of FlashInfer for SM90, in FP8
    deepgemm                a layer of DeepGEMM for SM90, in FP8
    epcomm PACK [MODE [ROUTING [PRECISION]]]  epcomm with a file of epbench pack; MODE is chunks or plain,
                            PRECISION full or reduced
"""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import main  # noqa: E402

if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isidentifier():
        sys.exit(__doc__)
    main(importlib.import_module("libraries." + sys.argv[1]).Library(*sys.argv[2:]))
