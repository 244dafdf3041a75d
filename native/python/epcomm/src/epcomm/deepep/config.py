"""DeepEP's Config. epcomm uses only its field num_sms, because epcomm sends no chunks and takes all tuned
parameters from the pack."""


class NotServed(NotImplementedError):
    """Raised for a call that epcomm.deepep does not support. The text says what to use
    instead."""

    def __init__(self, what, use):
        super().__init__(f"epcomm.deepep does not serve {what}; {use}")


def must_be_off(name, on, use):
    """Raises NotServed if an option that epcomm does not support is on."""
    if on:
        raise NotServed(name, use)


def must_be(name, tensor, dtype, *shape):
    """Refuses a tensor that the kernels would misread. None allows any size."""
    fits = tensor.dtype is dtype and tensor.dim() == len(shape) and all(w is None or w == n for w, n in zip(shape, tensor.shape))
    if not fits:
        want = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name}: {tensor.dtype} {list(tensor.shape)}; give {dtype} [{want}]")


def must_be_on(device, **tensors):
    """Refuses a tensor whose memory the kernels on a device cannot read."""
    for name, tensor in tensors.items():
        if tensor is not None and (tensor.device.type != device.type or None not in (tensor.device.index, device.index) and tensor.device != device):
            raise ValueError(f"{name}: it is on {tensor.device}; give a tensor on {device}")


class Config:
    """A Config bounds the SMs of a call by num_sms; 0 means no bound. The other numbers are only
    kept for programs that read them."""

    def __init__(self, num_sms=20, num_max_nvl_chunked_send_tokens=6, num_max_nvl_chunked_recv_tokens=256,
                 num_max_rdma_chunked_send_tokens=6, num_max_rdma_chunked_recv_tokens=256):
        if num_sms < 0 or num_sms == 1:
            raise ValueError(f"num_sms: {num_sms}; give at least 2, or 0 for no bound")
        self.num_sms = self.bound = num_sms
        self.num_max_nvl_chunked_send_tokens = num_max_nvl_chunked_send_tokens
        self.num_max_nvl_chunked_recv_tokens = num_max_nvl_chunked_recv_tokens
        self.num_max_rdma_chunked_send_tokens = num_max_rdma_chunked_send_tokens
        self.num_max_rdma_chunked_recv_tokens = num_max_rdma_chunked_recv_tokens

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        """Returns 0: Buffer needs no size, because it allocates memory at the first call of a shape."""
        return 0

    def get_rdma_buffer_size_hint(self, hidden_bytes, num_ranks):
        """Returns 0, as get_nvl_buffer_size_hint does."""
        return 0


MOST_RANKS = 8


def config_for(num_ranks, num_sms, bound):
    """Returns the Config for a number of ranks, the same for all numbers. bound is the number given to set_num_sms, or 0."""
    if not 1 <= num_ranks <= MOST_RANKS:
        raise NotServed(f"{num_ranks} ranks", f"use it with at most {MOST_RANKS} ranks, all on one host")
    config = Config(num_sms)
    config.bound = bound
    return config
