"""Makes the recorded routings that the tests read: numpy's own files, and dumps
laid out as expert recorders write them. The .pt files are what torch.save
gives, made without PyTorch: the pickle module writes the same opcodes when
the classes it names look like torch's.

    python3 testdata/traces/make.py    # in the repository's root, needs numpy and safetensors
"""

import collections
import io
import json
import pathlib
import pickle
import sys
import types
import zipfile

import numpy as np
import safetensors.numpy

OUT = pathlib.Path(__file__).parent
rng = np.random.default_rng(7)


def topk(*shape, experts=16, k=4):
    """Distinct ids, the low ones likelier."""
    score = rng.gumbel(size=(*shape, experts)) - 0.8 * np.log(np.arange(1, experts + 1))
    return np.argsort(-score, axis=-1)[..., :k]


# A module that pickles as torch does.
torch = types.ModuleType("torch")
torch._utils = types.ModuleType("torch._utils")
sys.modules["torch"], sys.modules["torch._utils"] = torch, torch._utils


def _rebuild_tensor_v2(*args):
    raise NotImplementedError


_rebuild_tensor_v2.__module__ = "torch._utils"
torch._utils._rebuild_tensor_v2 = _rebuild_tensor_v2
STORAGE = {"int32": "IntStorage", "int64": "LongStorage", "float32": "FloatStorage"}
for name in STORAGE.values():
    setattr(torch, name, type(name, (), {"__module__": "torch"}))


class Tensor:
    def __init__(self, array):
        self.array = np.ascontiguousarray(array)

    def __reduce_ex__(self, _):
        stride = tuple(s // self.array.itemsize for s in self.array.strides)
        return torch._utils._rebuild_tensor_v2, (Storage(self.array), 0, self.array.shape, stride, False, collections.OrderedDict())


class Storage:
    def __init__(self, array):
        self.array = array


def torch_save(obj, name):
    storages, buf = [], io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, o):
            if isinstance(o, Storage):
                storages.append(o.array)
                cls = getattr(torch, STORAGE[str(o.array.dtype)])
                return ("storage", cls, str(len(storages) - 1), "cpu", o.array.size)
            return None

    Pickler(buf, protocol=2).dump(obj)
    with zipfile.ZipFile(OUT / name, "w", zipfile.ZIP_STORED) as z:
        put = lambda path, data: z.writestr(zipfile.ZipInfo("archive/" + path), data)
        put("data.pkl", buf.getvalue())
        put("byteorder", "little")
        for i, a in enumerate(storages):
            put(f"data/{i}", a.tobytes())
        put("version", "3\n")


ids = topk(300).astype(np.int32)
weights = np.sort(rng.random((300, 4), dtype=np.float32), axis=1)[:, ::-1]
np.save(OUT / "ids_i4.npy", ids)
np.save(OUT / "ids_be_i8.npy", ids.astype(">i8"))
np.save(OUT / "ids_fortran.npy", np.asfortranarray(ids))
np.save(OUT / "ids_float.npy", ids.astype(np.float32))
with open(OUT / "ids_u2_v2.npy", "wb") as f:
    np.lib.format.write_array(f, ids.astype(np.uint16), version=(2, 0))
np.savez(OUT / "ids_weights.npz", topk_ids=ids, topk_weights=weights)
np.savez_compressed(OUT / "vllm_routed_experts.npz", routed_experts=topk(50, 3).astype(np.int32))

counts = np.stack([np.bincount(topk(200).reshape(-1), minlength=16) for _ in range(2 * 3)]).reshape(2, 3, 16)
torch_save({"rank": 0, "logical_count": Tensor(counts.astype(np.int32)), "average_utilization_rate_over_window": None}, "sglang_stat.pt")
torch_save({
    "records": [{"forward_pass_id": i, "rank": 0, "gatherer_key": "primary", "topk_ids_of_layer": Tensor(topk(3, n).astype(np.int32)),
                 "num_token_non_padded": n} for i, n in enumerate((20, 1, 7))],
    "last_physical_to_logical_map": Tensor(np.tile(np.arange(16), (3, 1))),
}, "sglang_per_token.pt")
torch_save({"records": [{"forward_pass_id": i, "global_physical_count": Tensor(c)} for i, c in enumerate(counts)]}, "sglang_per_pass.pt")
(OUT / "sglang_counts.json").write_text(json.dumps({"logical_count": counts[0].tolist()}) + "\n")
with open(OUT / "sglang_counts.csv", "w") as f:
    f.write("layer_id,expert_id,count\n")
    for layer, row in enumerate(counts.sum(axis=0)):
        for expert, n in enumerate(row):
            f.write(f"{layer},{expert},{n}\n")

# Redundant experts: 24 physical ones, of which expert 0 has six replicas and
# 1 to 3 have two each. Counts are of physical experts.
replicas = np.array(list(range(16)) + [0, 0, 0, 0, 0, 1, 2, 3])
physical = np.arange(24)[None, None, :] + np.arange(3)[None, :, None] + 10 * np.arange(2)[:, None, None]
torch_save({
    "records": [{"forward_pass_id": i, "global_physical_count": Tensor(c)} for i, c in enumerate(physical)],
    "last_physical_to_logical_map": Tensor(np.stack([np.roll(replicas, layer) for layer in range(3)])),
}, "sglang_redundant.pt")

# vllm-ascend: compute_and_set_moe_load of eplb_updator.py gathers [layers, local experts] of
# each rank along a new axis 1. One file a pass, as its users save the tensor.
for i, c in enumerate(counts):
    ranks = [c[:, 4 * r:4 * r + 4][:, None] for r in range(4)]
    np.save(OUT / f"moe_load_{i}.npy", np.concatenate(ranks, axis=1))

# SGLang, mode per_token, as _DetailAccumulator.dump writes it on each of two ranks: ids of
# physical experts, padded with -1 to 8, and the counts of the same pass that
# _convert_per_token_to_global_physical_count computes of them.
for rank in range(2):
    records = []
    for n in (11, 5):
        padded = np.full((3, n, 8), -1, dtype=np.int32)
        padded[..., :4] = topk(3, n)
        padded[(padded == 0) & (rng.random(padded.shape) < 0.5)] = 18  # the dispatcher picks one of the replicas
        count = np.stack([np.bincount(layer[layer >= 0], minlength=24) for layer in padded])
        records.append({"forward_pass_id": len(records), "rank": rank, "gatherer_key": "primary", "topk_ids_of_layer": Tensor(padded),
                        "global_physical_count": Tensor(count)})
    torch_save({"records": records, "last_physical_to_logical_map": Tensor(np.tile(replicas, (3, 1)))},
               f"expert_distribution_recorder_1700000000.5_{rank}.pt")

# TensorRT-LLM: ExpertStatistic of tensorrt_llm/_torch/expert_statistic.py writes a file for each
# rank, ITERATION_LAYER -> int64 [experts] of torch.bincount, and meta_info.json.
folder = OUT / "trtllm_statistic"
folder.mkdir(exist_ok=True)
statistic = np.stack([np.bincount(topk(100).reshape(-1), minlength=16) for _ in range(2 * 2 * 2)]).reshape(2, 2, 2, 16)
for rank in range(2):
    safetensors.numpy.save_file({f"{10 + i}_{3 + l}": statistic[rank, i, l].astype(np.int64) for i in range(2) for l in range(2)},
                                folder / f"rank{rank}.safetensors")
(folder / "meta_info.json").write_text(json.dumps({"num_experts": 16, "num_experts_per_token": 4}))
