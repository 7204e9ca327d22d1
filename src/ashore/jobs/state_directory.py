"""Where a machine keeps what it knows of jobs."""

import os
from pathlib import Path


def state_directory() -> Path:
    """Return where a machine keeps what it knows of jobs: $ASHORE_HOME, ~/.local/state/ashore."""
    own = os.environ.get("ASHORE_HOME")
    return Path(own) if own else Path.home() / ".local" / "state" / "ashore"
