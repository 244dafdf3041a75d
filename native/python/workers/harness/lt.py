"""Computes matrix products with native/shim/ep_product.c of epbench's repository, which plans and launches products
of cuBLASLt. EPBENCH_PRODUCT is the path of the shared library that this command makes:

    cc -O2 -shared -fPIC -o libproduct.so native/shim/ep_product.c -ldl

EPBENCH_CUBLASLT is the path of cuBLASLt or of its folder. Without it the module uses the cuBLASLt that PyTorch has
loaded.
"""

import contextlib
import ctypes
import os
import pathlib
import sys

import torch

from .beside import TAKEN, Size, own_plan, plan_beside, spelled
from .product import TorchProduct
from .protocol import Failure

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
WORKSPACE = 32 << 20  # as NVIDIA recommends for sm_90


class Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("m", "n", "k", "fp8", "groups", "batch", "sms")] + \
               [(name, ctypes.c_uint64) for name in ("x", "w", "out", "workspace", "workspace_bytes")]


def opened(path):
    """Opens the shared library and cuBLASLt."""
    lib, text, tried = ctypes.CDLL(path), ctypes.create_string_buffer(512), []
    lib.ep_product_make.argtypes = [ctypes.POINTER(Spec), ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p]
    lib.ep_product_launch.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64]
    lib.ep_product_kernels.argtypes = lib.ep_product_free.argtypes = [ctypes.c_void_p]
    at = os.environ.get("EPBENCH_CUBLASLT", "")
    for name in [at] if pathlib.Path(at).is_file() else [os.path.join(at, n) for n in NAMES] + list(NAMES):
        if lib.ep_product_open(name.encode(), text) == 0:
            return lib
        tried.append(text.value.decode())
    raise Failure("launch", "beside: no cuBLASLt here (%s); name its folder in EPBENCH_CUBLASLT" % "; ".join(tried))


class LtProduct(TorchProduct):
    """A TorchProduct whose launches ep_product.c makes. If cuBLASLt supports batches of this product, a launch is one
    kernel."""

    plans_for_fewer = True

    def __init__(self, size, device, seed=1):
        super().__init__(size, device, seed)
        self.lib, self.plans = opened(os.environ["EPBENCH_PRODUCT"]), {}
        self.sms_left = 0  # SMs for the product while calls run, 0 for all
        self.own = 0  # SMs of the plan that is fastest while no calls run, 0 for all
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=device)
        self.plan()

    def plan(self):
        """Returns the plan for the number of SMs that plan_beside chooses. It makes each plan at the first use."""
        sms = plan_beside(self.own, self.sms_left)
        if sms not in self.plans:
            s, made, text = self.size, ctypes.c_void_p(), ctypes.create_string_buffer(512)
            spec = Spec(s.m, s.n, s.k, int(s.dtype == "fp8"), s.groups, self.batch, sms,
                        *(t.data_ptr() for t in (self.x, self.w, self.out, self.workspace)), WORKSPACE)
            if self.lib.ep_product_make(ctypes.byref(spec), ctypes.byref(made), text):
                raise Failure("launch", "beside: " + text.value.decode())
            self.plans[sms] = made
        return self.plans[sms]

    @property
    def multiprocessors(self):
        return torch.cuda.get_device_properties(self.device).multi_processor_count

    @property
    def own_plans(self):
        """Returns the numbers of SMs for which plans are timed while no calls run. 0 stands for all SMs."""
        return [0] + [self.multiprocessors - n for n in TAKEN if 2 * n <= self.multiprocessors]

    def drop(self):
        for made in self.plans.values():
            self.lib.ep_product_free(made)
        self.plans, self.own = {}, 0

    def take(self, share, least):
        launches = super().take(share, least)
        self.drop()
        self.plan()
        return launches

    def launch(self, i):
        status = self.lib.ep_product_launch(self.plan(), i, torch.cuda.current_stream().cuda_stream)
        if status:
            raise Failure("launch", "beside: cuBLASLt refuses to launch %s: status %d" % (spelled(self.size), status))

    @contextlib.contextmanager
    def planned(self, taken):
        """Plans launches inside a block `with planned(taken):` for the SMs that calls leave unused. Calls use `taken`
        SMs."""
        self.sms_left = taken and self.multiprocessors - taken
        try:
            yield
        finally:
            self.sms_left = 0

    def amount(self, share):
        return "%d launches, each with %d of the %d products %s, in %d kernels%s" % (
            share, self.batch, self.size.groups, spelled(self.size), self.lib.ep_product_kernels(self.plan()), own_plan(self))


def compare(device):
    """Compares the results of products with results of PyTorch in float32."""
    for dtype in ("bf16", "fp8"):
        p = LtProduct(Size("gemm", 16, 256, 512, dtype, 12), device)
        want = torch.bmm(p.x.float(), p.w.float().transpose(1, 2))
        for share, taken in ((None, 0), (0.5, 0), (0.5, 24)):
            if share:
                p.batch = p.size.groups
                p.take(share, 1)
            p.out.zero_()
            with p.planned(taken):
                for i in range(p.launches):
                    p.launch(i)
            torch.cuda.synchronize()
            worst = float((p.out.float() - want).abs().max() / want.abs().max())
            print("%s, launches of %d, %d SMs taken: off by %.2g; %s" % (dtype, p.batch, taken, worst, p.amount(p.launches)))
            if not worst < 0.01:
                sys.exit("a product is wrong")


if __name__ == "__main__":
    compare(torch.device("cuda", 0))
