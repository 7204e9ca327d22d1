"""`define`: what tables are from here on: columns, partitions, format, where their rows come from.

What it promises: the files that entries before it list were written as the definition before it
says. So what is about to be written is compared with what readers have, without a catalog and
without opening a file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ashore.base import codec
from ashore.log.fold import Changes, Fold
from ashore.log.rules import require
from ashore.log.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Define:
    """Tables as they are from here on, each as a whole."""

    kind: ClassVar[str] = "define"
    tables: tuple[TableDefinition, ...]
    accepted: tuple[str, ...]  # changes that are risky for readers, in words
    by: str  # who accepted them; empty where there are none
    changes: tuple[str, ...] = codec.added(())  # the others, in words


def fold_define(fold: Fold, body: Define) -> Changes:
    """Return what a `define` changes in the fold. Raises Refused."""
    return {"tables": merge_definitions(fold.tables, body.tables)}


def merge_definitions(
    known: Mapping[str, TableDefinition], tables: Iterable[TableDefinition]
) -> dict[str, TableDefinition]:
    """Return the tables of a log after an entry that defines some. Raises Refused."""
    defined: dict[str, TableDefinition] = {}
    for each in tables:
        require(each.table not in defined, "a table is in it twice")
        defined[each.table] = each
    return {**known, **defined}
