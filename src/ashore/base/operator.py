"""Who runs this process, for the log: decisions of people stand there with their names."""

import getpass
import os


def operator() -> str:
    """Return who runs this command, for the log: a name, or the number of a user without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no entry
        return f"uid {os.getuid()}"
