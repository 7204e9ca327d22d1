"""Builds the loops of the native consumer, where there is a C compiler.

What it is: Hatch's hook for wheels and editable installs.
What it promises: a missing or failing compiler is told and stops nothing: without the loops records
come through Python's Kafka client, at twice the CPU time.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/ashore/sources/consumer/gather.c")
TARGET = Path("src/ashore/sources/consumer/gather.so.1")
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]


class LoopsHook(BuildHookInterface):
    """Compiles one file without headers of Python or of librdkafka."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See BuildHookInterface."""
        root = Path(self.root)
        trouble = _compile(root / SOURCE, root / TARGET)
        if trouble:
            self.app.display_warning(f"{trouble}; records will come through Python's Kafka client")
            return
        if version != "editable":
            build_data["artifacts"].append(f"/{TARGET}")
            build_data["pure_python"], build_data["infer_tag"] = False, True


def _compile(source: Path, target: Path) -> str:
    """Return what went wrong, or an empty string."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return "there is no C compiler"
    made = target.with_suffix(".new")  # a process that has the old one loaded keeps it
    command = [compiler, *FLAGS, "-o", str(made), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        return f"{source.name} does not compile: {built.stderr}"
    made.replace(target)
    return ""
