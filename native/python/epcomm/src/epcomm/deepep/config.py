"""Defines DeepEP's Config, and functions that check arguments."""


class NotServed(NotImplementedError):
    """Raised for a call that epcomm.deepep does not support. The error text says what to do instead."""

    def __init__(self, what, use):
        super().__init__(f"epcomm.deepep does not serve {what}; {use}")


def must_be_off(name, on, use):
    if on:
        raise NotServed(name, use)


def must_be(name, tensor, dtype, *shape):
    """Raises ValueError if a tensor does not have this dtype and shape. A size of None allows any size."""
    fits = tensor.dtype is dtype and tensor.dim() == len(shape) and all(w is None or w == n for w, n in zip(shape, tensor.shape))
    if not fits:
        want = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name}: {tensor.dtype} {list(tensor.shape)}; give {dtype} [{want}]")


def must_be_on(device, **tensors):
    for name, tensor in tensors.items():
        if tensor is not None and (tensor.device.type != device.type or None not in (tensor.device.index, device.index) and tensor.device != device):
            raise ValueError(f"{name}: it is on {tensor.device}; give a tensor on {device}")


class Config:
    """Bounds the number of SMs of a call by num_sms. With 0 there is no bound. The arguments besides num_sms are not
    used."""

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
        return 0

    def get_rdma_buffer_size_hint(self, hidden_bytes, num_ranks):
        return 0


MOST_RANKS = 8


def config_for(num_ranks, num_sms, bound):
    if not 1 <= num_ranks <= MOST_RANKS:
        raise NotServed(f"{num_ranks} ranks", f"use it with at most {MOST_RANKS} ranks, all on one host")
    config = Config(num_sms)
    config.bound = bound
    return config
