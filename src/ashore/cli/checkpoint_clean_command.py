"""The command `ashore checkpoint clean`.

What it promises: with `--explain` nothing is changed. No JVM is started.
What it must not know: which files are needed.
"""

from typing import Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli import checkpoint_clean_view
from ashore.cli.options import AsJson, Debug, Explain, Query, Where
from ashore.cli.output import print_json, reported_errors
from ashore.control.checkpoints.clean import OLDER_THAN, clean, parse_age


def checkpoint_clean(
    where: Where,
    query: Query = None,
    older_than: Annotated[
        str, typer.Option(help="Files that were modified since are kept.")
    ] = OLDER_THAN,
    explain: Explain = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete the files that no kept batch of a checkpoint refers to, or of a directory of many."""
    with reported_errors(as_json=as_json, debug=debug):
        age_ms = parse_age(older_than)
        found = clean(where, query, age_ms, SystemClock(), explain=explain)
        if as_json:
            print_json(checkpoint_clean_view.cleaned_document(found, explain=explain))
        else:
            checkpoint_clean_view.show_cleaned(found, explain=explain)
