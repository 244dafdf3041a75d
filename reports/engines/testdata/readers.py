"""Reads a file of "epbench table export" with the engine's own code, and prints the result as JSON.

Usage: readers.py ENGINE WHEELS FILE

ENGINE is the name of a function below. WHEELS is the folder to which "make engine-readers"
downloads the engines' wheels. The script takes single definitions out of the wheels and installs
nothing. It thus needs neither torch nor other packages that the engines need.
"""

import ast
import glob
import importlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import types
import zipfile


def member(wheels, name, path):
    """Returns the source of a file in a wheel."""
    with zipfile.ZipFile(glob.glob(os.path.join(wheels, name + "-*.whl"))[0]) as z:
        return z.read(path).decode()


def definition(source, name):
    """Returns the source of one function or class. The whole module could not be imported."""
    return next(ast.get_source_segment(source, n) for n in ast.parse(source).body if getattr(n, "name", "") == name)


def sglang(wheels, file):
    """Returns the SMs and the two configs that SGLang's class DeepEPConfig reads from the JSON file."""
    class Config:
        # The parameters have the names of DeepEP's binding, csrc/deep_ep.cpp at v1.2.1.
        def __init__(self, num_sms=20, num_max_nvl_chunked_send_tokens=6, num_max_nvl_chunked_recv_tokens=256,
                     num_max_rdma_chunked_send_tokens=6, num_max_rdma_chunked_recv_tokens=256):
            self.values = [num_sms, num_max_nvl_chunked_send_tokens, num_max_nvl_chunked_recv_tokens]

    rank = types.SimpleNamespace(distributed=types.SimpleNamespace(get_rank=lambda: 1))
    names = {"orjson": json, "JSONDecodeError": json.JSONDecodeError, "Path": pathlib.Path, "BaseDispatcherConfig": object,
             "Config": Config, "torch": rank, "get_deepep_config": lambda: file}
    for path, name in (("srt/utils/common.py", "load_json_config"), ("srt/layers/moe/token_dispatcher/deepep.py", "DeepEPConfig")):
        exec(definition(member(wheels, "sglang", "sglang/" + path), name), names)
    c = names["DeepEPConfig"].get_instance()
    return [c.num_sms, c.normal_dispatch_config.values, c.normal_combine_config.values]


def megatron(wheels, file):
    """Returns the field that the flag sets, its value, and all fields of TransformerConfig with a number of SMs."""
    flag, value = pathlib.Path(file).read_text().split()
    source = definition(member(wheels, "megatron_core", "megatron/core/transformer/transformer_config.py"), "TransformerConfig")
    fields = re.findall(r"^    (moe_\w*num_sms): int", source, re.M)
    return [flag[2:].replace("-", "_"), int(value), fields]


def aiconfigurator(wheels, file):
    """Returns the latencies in ms by backend, phase, SMs and tokens.

    aiconfigurator's compiled reader reads the file. Its function communication_dtype_for chooses
    the dtype of the rows."""
    with tempfile.TemporaryDirectory() as d:
        root = pathlib.Path(d)
        with zipfile.ZipFile(glob.glob(os.path.join(wheels, "aiconfigurator_core-*.whl"))[0]) as z:
            for name in z.namelist():
                if re.fullmatch(r"aiconfigurator_core/(__init__\.py|[^/]*\.so|systems/h200_sxm\.yaml)", name):
                    z.extract(name, root)
        sys.path.insert(0, d)
        core = importlib.import_module("aiconfigurator_core")
        systems = root / "aiconfigurator_core" / "systems"
        table = systems / "data/h200_sxm/comm/vllm/1.0.0/moe_a2a_perf.parquet"
        table.parent.mkdir(parents=True)
        shutil.copy(file, table)
        none = dict.fromkeys(("kv_block_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "cp_size", "weight_dtype", "moe_dtype",
                              "activation_dtype", "kv_cache_dtype", "transfer_policy"))
        engine = dict(none, schema_version=1, model_name="none", system_name="h200_sxm", systems_path=str(systems), backend="vllm", backend_version="1.0.0",
                      tp_size=1, pp_size=1, enable_shared_layer=False, strict_provenance=False, database_mode="SILICON", tolerate_dirless_version=True, extra={})
        spec = dict(schema_version=core.engine_spec_schema_version(), engine=engine, context_ops=[], generation_ops=[])
        reader = core.AicEngine.from_spec(core.engine_spec_bincode_from_json(json.dumps(spec)), systems_path=str(systems))
        view = json.loads(reader.table_view_json("_moe_a2a_data"))
        source = member(wheels, "aiconfigurator_core", "aiconfigurator_core/sdk/operations/moe_comm.py")
        names = {"_HOPPER_SYSTEMS": ("h200_sxm",)}
        exec("from __future__ import annotations\n" + definition(source, "communication_dtype_for"), names)

        def shape(backend, phase):
            quantization = "fp8_block" if backend.startswith("deepep") else "bfloat16"
            dtype = names["communication_dtype_for"](system="h200_sxm", comm_backend=backend, model_quantization=quantization,
                                                     communication_phase=phase, inference_phase="context")
            return view[backend][phase][dtype]["2"]["1"]["7168"]["8"]["256"]

        return {b: {phase: {sms: {n: x["latency"] for n, x in by.items()} for sms, by in shape(b, phase).items()} for phase in ("dispatch", "combine")}
                for b in view if b in ("deepep_ht", "nvlink_one_sided")}


def plugin(_, file):
    """Returns the configs that DeepEP's Buffer gives after the shim is loaded as a plugin of vLLM.

    The shim becomes an installed package, with the entry point that its docstring gives.
    importlib.metadata finds it, as in vLLM. vLLM itself is not used, because it needs a GPU build."""
    text = pathlib.Path(file).read_text()
    group, name, target = re.search(r'\[project\.entry-points\."([\w.]+)"\]\s+(\w+) = "(MODULE:\w+)"', text).groups()
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "epbench_deepep.py").write_text(text)
        info = pathlib.Path(d, "epbench_deepep-1.dist-info")
        info.mkdir()
        info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: epbench-deepep\nVersion: 1\n")
        info.joinpath("entry_points.txt").write_text("[%s]\n%s = %s\n" % (group, name, target.replace("MODULE", "epbench_deepep")))
        sys.path.insert(0, d)
        own = staticmethod(lambda ranks: "own")
        buffer = type("Buffer", (), {"get_dispatch_config": own, "get_combine_config": own, "get_dispatch_layout": None, "dispatch": None, "combine": None})
        sys.modules["deep_ep"] = types.SimpleNamespace(Buffer=buffer, Config=lambda *values: list(values))
        for entry in importlib.metadata.entry_points(group="vllm.general_plugins"):
            if entry.name == name:
                entry.load()()
        return [buffer.get_dispatch_config(2), buffer.get_combine_config(2), buffer.get_dispatch_config(8)]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
