"""The text of a job file as pages read it, with its secrets masked for those who look.

What it promises: what cannot be read is said, and is never taken for an empty file.
"""

from pathlib import Path

from ashore.config.masked import MaskedText, mask_secrets
from ashore.errors import RequestInvalid


def read_text(path: Path) -> str:
    """Return a job file as it is. Raises RequestInvalid."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise RequestInvalid(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestInvalid(f"{path.name} is not a text in UTF-8") from None


def read_masked(path: Path) -> MaskedText:
    """Return a job file without its secrets. Raises RequestInvalid, JobFileInvalid."""
    return mask_secrets(read_text(path))
