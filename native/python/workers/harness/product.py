"""Computes matrix products with PyTorch, which calls cuBLASLt. Matrices have the values and sizes that
kernels/cuda/drive uses."""

import contextlib
import math

import torch

from .beside import HELD, share_of, spelled

COPY_BYTES, COPY_PARTS = 64 << 20, 4  # bytes of one copy, and launches of a pass

# For each dtype, a mask of the bits that are random, and the bits that are always set. The values are between 1/2 and
# 1 with either sign. They must have the distribution of kernels/cuda/drive, because a GPU's power depends on the
# values, and its clock rate depends on the power.
BITS = {"bf16": (0x807F807F, 0x3F003F00), "fp8": (0x87878787, 0x30303030)}
DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def filled(shape, dtype, device, seed):
    drawn, always = BITS[dtype]
    x = torch.empty(shape, dtype=DTYPES[dtype], device=device)
    words = x.view(-1).view(torch.int32)
    words.random_(-(1 << 31), 1 << 31, generator=torch.Generator(device).manual_seed(seed))
    words.bitwise_and_(drawn - (1 << 32)).bitwise_or_(always)
    return x


class TorchProduct:
    """The product [M, K] x [K, N] for each expert, accumulated in float32, with a BF16 result. In e4m3 a kernel
    computes one expert. In BF16 a kernel computes all experts of a launch. On the CPU, e4m3 is converted to BF16
    first."""

    plans_for_fewer = hasattr(torch._C, "_set_sm_carveout_experimental")

    def __init__(self, size, device, seed=1):
        self.size, self.device, self.batch = size, device, max(size.groups, 1)
        self.held = HELD if device.type == "cuda" else math.inf
        if size.kind == "copy":
            self.x = torch.ones(COPY_PARTS, COPY_BYTES, dtype=torch.uint8, device=device)
            self.out = torch.empty_like(self.x)
            return
        g, m, n, k = self.batch, size.m, size.n, size.k
        self.x, self.w = filled((g, m, k), size.dtype, device, 2 * seed), filled((g, n, k), size.dtype, device, 2 * seed + 1)
        self.out = torch.empty(g, m, n, dtype=torch.bfloat16, device=device)
        self.one = torch.ones((), device=device)
        if device.type == "cuda" and size.dtype == "bf16":
            torch.backends.cuda.preferred_blas_library("cublaslt")  # cuBLASLt can plan for fewer SMs

    @property
    def launches(self):
        return COPY_PARTS if self.size.kind == "copy" else -(-self.size.groups // self.batch)

    @property
    def trial(self):
        return self.launches

    def take(self, share, least):
        """Chooses the number of experts in a launch. Returns the number of launches for `share` passes over all
        experts; it is at least `least`."""
        self.batch, launches = share_of(share, max(self.size.groups, 1), self.launches, least)
        return launches

    def launch(self, i):
        if self.size.kind == "copy":
            self.out[i % COPY_PARTS].copy_(self.x[i % COPY_PARTS])
            return
        # The last launch repeats experts of the launch before it, so that it too has self.batch experts.
        first = min(i % self.launches * self.batch, self.size.groups - self.batch)
        experts = slice(first, first + self.batch)
        if self.size.dtype == "bf16":
            torch.bmm(self.x[experts], self.w[experts].transpose(1, 2), out=self.out[experts])
            return
        for e in range(first, first + self.batch):
            self.multiply(e)

    def multiply(self, e):
        if self.device.type == "cpu":
            torch.mm(self.x[e].to(torch.bfloat16), self.w[e].t().to(torch.bfloat16), out=self.out[e])
        else:
            torch._scaled_mm(self.x[e], self.w[e].t(), scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16, out=self.out[e])

    @contextlib.contextmanager
    def planned(self, taken):
        """Inside a block `with planned(taken):` PyTorch chooses kernels for the SMs that calls leave unused. Calls use
        `taken` SMs. In some versions of PyTorch this has no effect."""
        if not taken or self.size.kind == "copy" or not self.plans_for_fewer:
            yield
            return
        torch._C._set_sm_carveout_experimental(taken)
        try:
            yield
        finally:
            torch._C._set_sm_carveout_experimental(None)

    def amount(self, share):
        if self.size.kind == "copy":
            return "%d copies of %d MiB" % (share, COPY_BYTES >> 20)
        kernels = 1 if self.size.dtype == "bf16" else self.batch
        where = " on the CPU, in BF16" if self.device.type == "cpu" else ""
        return "%d launches, each with %d of the %d products %s, in %d kernels, by PyTorch %s%s" % (
            share, self.batch, self.size.groups, spelled(self.size), kernels, torch.__version__, where)
