"""Files that map operators of a changed query to those of the old one.

What it promises: `load_mapping` returns a complete mapping, or raises JobFileInvalid with every
problem at once, each with file and line. Which operators exist is not known here.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from ashore.jobs.file.document import read_document
from ashore.jobs.file.naming import NonEmpty
from ashore.jobs.file.problems import invalid, locate_problem, read_file_text, validate
from ashore.jobs.file.section import Section

HEAD = """\
# Which stateful operator of the old SQL (`old`) is which of the new SQL (`new`), by their ids.
# `pin` makes a pair; `forbid` keeps two from being one. `ashore migrate check --mapping` reads it.
"""


class MappedOperators(Section):
    """An operator of the old query and one of the new."""

    old: NonEmpty = Field(description="The id of the operator in the version that is running.")
    new: NonEmpty = Field(description="The id of the operator in the new SQL.")


class MappingFile(Section):
    """A file of edits."""

    pin: tuple[MappedOperators, ...] = Field(
        default=(), description="Pairs that hold, whatever else speaks for others."
    )
    forbid: tuple[MappedOperators, ...] = Field(
        default=(), description="Pairs that are never made."
    )


def load_mapping(path: Path) -> MappingFile:
    """Return the edits in a file. Raises JobFileInvalid."""
    instead = "`ashore migrate check --write-mapping FILE` writes one"
    document = read_document(read_file_text(path, instead))
    findings, data = list(document.findings), {} if document.data is None else document.data
    mapping = None if findings else validate(MappingFile, data, findings)
    if mapping is None:
        raise invalid(str(path), locate_problem(findings, str(path), document.lines))
    return mapping


def write_mapping(
    pairs: Iterable[tuple[str, str, str]], forbidden: Iterable[tuple[str, str]] = ()
) -> str:
    """Return the text of a file that pins pairs.

    Arguments:
        pairs: the id of the old operator, of the new one, and why they are a pair.
        forbidden: the ids of two that are no pair.

    """
    pins = [f"{_pair(old, new)}  # {why}" for old, new, why in pairs]
    forbids = [_pair(old, new) for old, new in forbidden]
    sections = (("pin", pins), ("forbid", forbids))
    lines = (
        line for name, some in sections for line in (f"{name}:" if some else f"{name}: []", *some)
    )
    return HEAD + "\n".join([*lines, ""])


def _pair(old: str, new: str) -> str:
    return f"  - {{old: {json.dumps(old)}, new: {json.dumps(new)}}}"
