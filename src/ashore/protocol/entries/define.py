"""`define`: what tables are from here on: columns, partitions, format, where their rows come from.

What it promises: the files that entries before it list were written as the definition before it
says. So what is about to be written is compared with what readers have, without a catalog and
without opening a file.
What it must not know: which change readers can stand.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.protocol.fold import Changes, Fold
from ashore.protocol.rules import require
from ashore.protocol.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Define:
    """Tables as they are from here on, each as a whole."""

    kind: ClassVar[str] = "define"
    tables: tuple[TableDefinition, ...]
    accepted: tuple[str, ...]  # changes that are risky for readers, in words
    by: str  # who accepted them; empty where there are none


def fold_define(fold: Fold, body: Define) -> Changes:
    """Return what a `define` changes in the fold. Raises Refused."""
    defined = {each.table: each for each in body.tables}
    require(len(defined) == len(body.tables), "a table is in it twice")
    return {"tables": {**fold.tables, **defined}}
