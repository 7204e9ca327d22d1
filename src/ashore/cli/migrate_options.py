"""Options that `ashore migrate check` and `apply` share, and the mapping file that one names.

What it must not know: what becomes of a state.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ashore.jobs.file.mapping import load_mapping
from ashore.plans.matching import MappingEdits

NewJobFile = Annotated[
    Path,
    typer.Option("--to", metavar="NEW.yaml", help="The job file with the new SQL.", exists=True),
]
OneQuery = Annotated[
    str | None,
    typer.Option(metavar="TABLE", help="Only the query that fills this table or topic."),
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Which operator is which: pins and forbids pairs. By default what was given at an "
        "earlier `migrate apply` of this change holds.",
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=TABLE",
        help="`ods.a=ods.b`: the INSERT into ods.a continues as the one into ods.b, with its "
        "state; `ods.a=` drops it. By default an INSERT continues as the one that has the same "
        "query.",
    ),
]


class BackfilledFrom(StrEnum):
    """What new parts of a state are filled from."""

    TOPIC = "topic"


Backfill = Annotated[
    BackfilledFrom | None,
    typer.Option(
        help="Fill new functions for the groups that are there, and new aggregates, from a replay: "
        "`topic` reads the topics of the query again, up to its last batch. By default they begin "
        "empty.",
    ),
]


def read_edits(path: Path | None) -> MappingEdits | None:
    """Return what a mapping file says; None without one. Raises JobFileInvalid."""
    if path is None:
        return None
    read = load_mapping(path)
    pinned, forbidden = (
        tuple((each.old, each.new) for each in some) for some in (read.pin, read.forbid)
    )
    return MappingEdits(pinned, forbidden)
