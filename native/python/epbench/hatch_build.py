"""Puts the programs and the Python workers of epbench into the wheel.

EPBENCH_PROGRAMS is the folder of the programs. EPBENCH_PLATFORM is the wheel's platform, such as linux_x86_64.
"""

import os
import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("epbench", "epbench-cuda", "epbench-compile")
WORKERS = pathlib.Path(__file__).resolve().parents[1] / "workers"


class Programs(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # an editable install uses the program on PATH
        folder = pathlib.Path(os.environ["EPBENCH_PROGRAMS"]).resolve()
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["EPBENCH_PLATFORM"]
        build_data["shared_scripts"] |= {str(folder / name): name for name in PROGRAMS}
        for source in sorted(WORKERS.rglob("*.py")):
            if source.name != "faulty.py":  # used only in tests
                build_data["force_include"][str(source)] = str("epbench/workers" / source.relative_to(WORKERS))
