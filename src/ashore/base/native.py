"""The native module: whether it is here, and whether it is one that this Ashore can use.

What it is: the one question to `ashore_native`, the crate under `native/`, before it is imported.
What it promises: nothing is loaded where it is not installed; what it answers is for people.
"""

import importlib
import importlib.util
from functools import cache

MODULE = "ashore_native"
PACKAGE = "ashore-native"
INTERFACE = 9  # of `native/src/python.rs`


@cache
def why_not_native() -> str:
    """Return why the native module cannot be used, and what helps; empty: it can."""
    if importlib.util.find_spec(MODULE) is None:
        return f"{PACKAGE} is not installed (pip install {PACKAGE})"
    try:
        found = importlib.import_module(MODULE).INTERFACE
    except ImportError as error:
        return f"{PACKAGE} cannot be loaded: {error}"
    if found != INTERFACE:
        return (
            f"{PACKAGE} has interface {found}, and this version of Ashore needs {INTERFACE} "
            f"(pip install --upgrade ashore {PACKAGE})"
        )
    return ""


def describe_reader(choice: str) -> str:
    """Return which reader and decoder run here where a job file says `choice`, and why."""
    reason = why_not_native()
    if choice == "python":
        return "python"
    if reason:
        return f"python, as {reason}"
    return f"native, {importlib.import_module(MODULE).describe()}"
