"""Offers DeepEP's interface with epcomm's kernels, for ranks on one host.

``Buffer``, ``Config`` and ``EventOverlap`` have the signatures and return values of DeepEP V1, with the same shapes,
dtypes and strides. ``ElasticBuffer`` and ``EPHandle`` have those of DeepEP V2. An unsupported call raises
``NotServed``.
"""

import torch

from .buffer import Buffer
from .config import Config, NotServed
from .elastic import ElasticBuffer
from .elastic_handle import EPHandle
from .events import EventHandle, EventOverlap
from .packs import use_packs

topk_idx_t = torch.int64

__all__ = ["Buffer", "Config", "EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap", "NotServed", "topk_idx_t", "use_packs"]
