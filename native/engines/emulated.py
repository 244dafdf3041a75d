"""Lets inference engines such as vLLM run on an emulated CUDA driver.

make() makes torch.cuda report two GPUs of compute capability 9.0."""

import types


def make():
    import deep_ep  # noqa: F401  from tests/emulated; makes torch.cuda work on the CPU
    import torch

    properties = types.SimpleNamespace(name="emulated", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, warp_size=32,
                                       gcnArchName="", shared_memory_per_block_optin=232448)
    for name, value in {"get_device_capability": (9, 0), "device_count": RANKS, "get_device_name": "emulated", "get_device_properties": properties,
                        "empty_cache": None}.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)


RANKS = 2


def vllm_platform():
    """Makes vLLM believe that this machine is a Jetson. Then vLLM uses CUDA but not NVML, which the emulator lacks."""
    import os

    real = os.path.isfile
    os.path.isfile = lambda path: path == "/etc/nv_tegra_release" or real(path)


def backward(*functions):
    """Makes backward methods of autograd functions use the replaced torch.cuda."""
    import torch

    mode = type(torch.overrides._get_current_function_mode())
    for function in functions:
        def again(ctx, *gradients, real=function.backward):
            with mode():
                return real(ctx, *gradients)
        function.backward = staticmethod(again)
