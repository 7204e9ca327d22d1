"""The text of a job file as pages read it, with its secrets masked for those who look.

What it promises: what cannot be read is said, and is never taken for an empty file.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path

from ashore.errors import RequestInvalid
from ashore.fleet.server.pages.versions_view import DiffLine, diff_lines
from ashore.jobs.file import parse_job
from ashore.jobs.file.masking import MaskedText, mask_secrets
from ashore.topics.loop.job import columns_of

TEXT_MAX = 200_000  # characters of a job file that pages show and take


def read_text(path: Path) -> str:
    """Return a job file as it is. Raises RequestInvalid."""
    try:
        with path.open("rb") as file:
            content = file.read(TEXT_MAX + 1) if path.is_file() else b""
        text = content.decode("utf-8")
    except OSError as error:
        raise RequestInvalid(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestInvalid(f"{path.name} is not a text in UTF-8") from None
    return check_size(text, path.name)


def read_masked(path: Path) -> MaskedText:
    """Return a job file without its secrets. Raises RequestInvalid, JobFileInvalid."""
    return mask_secrets(read_text(path))


def read_labels(name: str, text: str) -> Mapping[str, str]:
    """Return the labels of the text of a job file. Raises JobFileInvalid."""
    return parse_job(text, path=f"{name}.yaml", check_schema=columns_of).labels


def check_size(text: str, name: str) -> str:
    """Return a text, or refuse it: one that was cut would be another one. Raises RequestInvalid."""
    if len(text) > TEXT_MAX:
        raise RequestInvalid(
            f"{name} has more than {TEXT_MAX:,} characters, which pages do not show or take",
            hint="use `ashore deploy`, or move SQL into a file beside the job file",
        )
    return text


def diff_masked(before: Path, after: Path) -> tuple[DiffLine, ...]:
    """Return how two job files differ, without their secrets. Raises as `read_masked`."""
    old, new = (read_masked(each).text.splitlines() for each in (before, after))
    return diff_lines(list(difflib.unified_diff(old, new, lineterm="", n=2))[2:])
